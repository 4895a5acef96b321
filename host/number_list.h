/* number_list - reads the value of an option that is a list of numbers, such as 300,3000. */
#ifndef NUMBER_LIST_H
#define NUMBER_LIST_H

/* Writes the numbers to list[most]. Returns how many there are; 0: the text is not such a list, or it is longer. */
int number_list_read(const char *text, double *list, int most);

#endif
