/* sndfile_faults - releases of libsndfile that break files, by the numbers of libsndfile's issues. */
#ifndef SNDFILE_FAULTS_H
#define SNDFILE_FAULTS_H

struct sndfile_fault {
    int first_subtype, last_subtype; /* SF_FORMAT_..., written */
    int last_release;                /* with the fault, 10203 for 1.2.3; all releases before it have the fault */
    int issue;                       /* github.com/libsndfile/libsndfile/issues */
    const char *remedy;
};

/* The fault that breaks files of this format in the release that the program runs with; NULL = none. */
const struct sndfile_fault *sndfile_fault_find(int format);

/* "1.2.0", of the release that the program runs with. */
const char *sndfile_release(void);

#endif
