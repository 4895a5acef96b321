/* sofa_reader - the interface to the attributes and variables of a SOFA file (AES69); libmysofa and HDF5 implement it.
 *
 * libmysofa is small and withstands damaged files, but refuses many valid ones: with other types than double, variables
 * above 256 MB, or written by h5py. HDF5 reads every file, but brings 38 libraries along and crashes on some damaged
 * files (SECURITY.md). So it is loaded only when libmysofa has refused a file.
 */
#ifndef HALOCONV_SOFA_READER_H
#define HALOCONV_SOFA_READER_H

#include "dsp/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { SOFA_TEXT = 128, SOFA_MAX_DIMS = 4 };

struct sofa_variable {
    bool is_elsewhere;          /* another file, which is not opened, has the values: no field below is set  */
    int n_dims;                 /* 0: only n is known                                         */
    size_t dim[SOFA_MAX_DIMS];
    size_t n;                   /* values                                                     */
    char type[SOFA_TEXT];       /* the attribute Type: "spherical", "cartesian", ...; "" none */
    char units[SOFA_TEXT];
};

struct sofa_reader {
    void *file;
    /* Copies the value of an attribute of the file, cut to the size of `text`; "" if absent. */
    void (*text)(void *file, const char *name, char text[SOFA_TEXT]);
    /* Finds the shape of a variable. false: the variable is absent, is not an array of numbers, or has fewer bytes than
     * its shape needs. */
    bool (*look)(void *file, const char *name, struct sofa_variable *variable);
    /* Reads the n values of a variable. false: the file is damaged, another file has the values, or memory is short. */
    bool (*read)(void *file, const char *name, size_t n, float *values);
    void (*close)(void *file);
};

/* Both open a regular file. They fail with HC_EFILE, HC_ENOMEM, or HC_EUNSUPPORTED (this build lacks the library, or
 * this machine lacks HDF5). */
int sofa_mysofa_open(struct sofa_reader *reader, const char *path, struct reason *why);
int sofa_hdf5_open(struct sofa_reader *reader, const char *path, struct reason *why);

#endif
