/* sndfile_faults - releases of libsndfile that break files, by the numbers of libsndfile's issues. */
#ifndef SNDFILE_FAULTS_H
#define SNDFILE_FAULTS_H

struct sndfile_fault {
    int first_subtype, last_subtype; /* SF_FORMAT_... of the file */
    int last_release;                /* last release with the fault, 10203 for 1.2.3; all before it have the fault */
    int issue;                       /* github.com/libsndfile/libsndfile/issues */
    const char *remedy;
};

/* The fault that breaks files of this format in the release that the program runs with; NULL = none. */
const struct sndfile_fault *sndfile_fault_find(int format);

/* Returns the release that the program runs with, such as "1.2.0". */
const char *sndfile_release(void);

#endif
