/* number - reads numbers in texts, with a decimal point in every locale. */
#ifndef HALOCONV_NUMBER_H
#define HALOCONV_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* Reads the number at the start of a text, after blanks, in the forms of strtod. Returns the address after the number;
 * NULL: the text does not start with a number from min to max. NaN is outside every range; a min of NAN allows every
 * number and NaN. *value is also set to a number outside the range; it is 0 where the number is absent. */
const char *number_read(const char *text, double min, double max, double *value);

/* Is the whole text a number from min to max? */
bool number_is(const char *text, double min, double max, double *value);

/* Reads numbers separated by commas, such as 300,3000. Returns their count; 0: the text is not such a list, or the
 * list has more than `max` numbers. */
int number_list_read(const char *text, double *list, int max);

/* ---- numbers as programs print them for people: 1 250 with a no-break blank, 1'250, 1,250.5 ---- */

enum {
    GROUPED_BY_BLANKS = 1,      /* a plain blank also separates thousands: no second number may follow */
    GROUPED_BY_POINTS = 2,      /* 1.250 and 1,250 mean 1250, as REW writes frequencies                */
    GROUPED_DECIMAL_COMMA = 4   /* a comma that separates no thousands is a decimal comma              */
};

/* Reads a finite decimal number. No-break blanks (U+00A0, also as Latin-1, U+202F, U+2009) and apostrophes separate
 * thousands with every set of flags; a separator stands before three digits. U+2212 is a minus sign, too. Skips blanks
 * and no-break blanks before the number. *end points behind the number. If it is absent, *end is text, the result 0. */
double grouped_number(const char *text, unsigned flags, const char **end);

/* Returns the bytes of blanks and no-break blanks at the start of the text. */
size_t grouped_number_blanks(const char *text);

#endif
