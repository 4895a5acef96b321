/* sofa_hdf5 - reads SOFA files with HDF5: SOFA is netCDF-4, and netCDF-4 is HDF5.
 *
 * The library is loaded with dlopen when the first file needs it. Its calls are made under one lock: Debian's build is
 * not thread-safe. Between them its messages are as the host program has set them.
 */
#include "dsp/engine/backend.h"
#include "sofa_reader.h"

#ifdef HC_WITH_HDF5
#include <dlfcn.h>
#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

/* Each function of HDF5 that is called. The macros of hdf5.h are not: H5F_ACC_RDONLY calls a function that ends the
 * process if the library has another release than the header. */
#define FUNCTIONS(F)                                                                                                   \
    F(H5open)                                                                                                          \
    F(H5get_libversion)                                                                                                \
    F(H5Eget_auto2)                                                                                                    \
    F(H5Eset_auto2)                                                                                                    \
    F(H5Fopen) F(H5Fclose) F(H5Lexists) F(H5Oopen) F(H5Oclose) F(H5Iget_type) F(H5Dget_space) F(H5Dget_type)           \
        F(H5Dread) F(H5Sget_simple_extent_ndims) F(H5Sget_simple_extent_dims) F(H5Sget_simple_extent_npoints)          \
            F(H5Sclose) F(H5Aexists) F(H5Aopen) F(H5Aget_type) F(H5Aget_space) F(H5Aread) F(H5Aclose) F(H5Tget_class)  \
                F(H5Tget_size) F(H5Tis_variable_str) F(H5Tclose) F(H5free_memory)

static struct {
#define POINTER(name) __typeof__(&(name)) name;
    FUNCTIONS(POINTER)
    hid_t native_float;
    bool is_loaded, has_failed;
    char why[200];
} h5; /* under `lock` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void library_load(void)
{
    void *library = dlopen(TEXT(HC_HDF5_SONAME), RTLD_NOW | RTLD_LOCAL); /* never closed: it has an exit handler */
    bool all = library != NULL;
#define FIND(name)                                                                                                     \
    if (all) *(void **)&h5.name = dlsym(library, #name), all = h5.name != NULL;
    FUNCTIONS(FIND)
    unsigned major = 0, minor = 0, release = 0;
    hid_t *native_float = all ? dlsym(library, "H5T_NATIVE_FLOAT_g") : NULL;
    if (!native_float || h5.H5open() < 0 || h5.H5get_libversion(&major, &minor, &release) < 0) {
        const char *error = all ? NULL : dlerror();
        snprintf(h5.why, sizeof h5.why, "%s", error ? error : "it does not start");
    } else if (major != H5_VERS_MAJOR || minor != H5_VERS_MINOR) {
        snprintf(h5.why, sizeof h5.why, "it has version %u.%u, and %d.%d was built with", major, minor, H5_VERS_MAJOR,
                 H5_VERS_MINOR);
    } else {
        h5.native_float = *native_float;
        h5.is_loaded = true;
    }
    h5.has_failed = !h5.is_loaded;
}

/* The message handler of the host program, while ours is set: none. */
struct quiet {
    H5E_auto2_t function;
    void *data;
};

static void enter(struct quiet *quiet)
{
    pthread_mutex_lock(&lock);
    if (!h5.is_loaded && !h5.has_failed) library_load();
    if (!h5.is_loaded) return;
    if (h5.H5Eget_auto2(0, &quiet->function, &quiet->data) < 0) *quiet = (struct quiet){NULL, NULL};
    h5.H5Eset_auto2(0, NULL, NULL);
}

static void leave(const struct quiet *quiet)
{
    if (h5.is_loaded) h5.H5Eset_auto2(0, quiet->function, quiet->data);
    pthread_mutex_unlock(&lock);
}

/* ---- under the lock ---------------------------------------------------------------------------------------------- */

static void attribute_text(hid_t object, const char *name, char text[SOFA_TEXT])
{
    enum { LONGEST = 1 << 16 };
    text[0] = 0;
    if (h5.H5Aexists(object, name) <= 0) return;
    hid_t attribute = h5.H5Aopen(object, name, 0);
    hid_t type = attribute < 0 ? -1 : h5.H5Aget_type(attribute);
    hid_t space = attribute < 0 ? -1 : h5.H5Aget_space(attribute);
    size_t size = type < 0 ? 0 : h5.H5Tget_size(type);
    bool is_text =
        type >= 0 && h5.H5Tget_class(type) == H5T_STRING && space >= 0 && h5.H5Sget_simple_extent_npoints(space) == 1;
    if (is_text && h5.H5Tis_variable_str(type) > 0) {
        char *value = NULL;
        if (size == sizeof value && h5.H5Aread(attribute, type, &value) >= 0 && value) {
            snprintf(text, SOFA_TEXT, "%s", value);
            h5.H5free_memory(value);
        }
    } else if (is_text && size > 0 && size < LONGEST) {
        char *value = calloc(size + 1, 1);
        if (value && h5.H5Aread(attribute, type, value) >= 0) snprintf(text, SOFA_TEXT, "%s", value);
        free(value);
    }
    if (space >= 0) h5.H5Sclose(space);
    if (type >= 0) h5.H5Tclose(type);
    if (attribute >= 0) h5.H5Aclose(attribute);
}

/* Opens a dataset of numbers. -1: there is none of this name. */
static hid_t numbers_open(hid_t file, const char *name)
{
    if (h5.H5Lexists(file, name, 0) <= 0) return -1;
    hid_t data = h5.H5Oopen(file, name, 0);
    if (data < 0) return -1;
    hid_t type = h5.H5Iget_type(data) == H5I_DATASET ? h5.H5Dget_type(data) : -1;
    H5T_class_t class = type < 0 ? H5T_NO_CLASS : h5.H5Tget_class(type);
    if (type >= 0) h5.H5Tclose(type);
    if (class == H5T_FLOAT || class == H5T_INTEGER) return data;
    h5.H5Oclose(data);
    return -1;
}

static bool shape_read(hid_t data, struct sofa_variable *variable)
{
    hsize_t dim[SOFA_MOST_DIMS] = {0};
    hid_t space = h5.H5Dget_space(data);
    if (space < 0) return false;
    int n_dims = h5.H5Sget_simple_extent_ndims(space);
    hssize_t n = h5.H5Sget_simple_extent_npoints(space);
    bool good = n_dims >= 0 && n_dims <= SOFA_MOST_DIMS && n >= 0 &&
                (n_dims == 0 || h5.H5Sget_simple_extent_dims(space, dim, NULL) == n_dims);
    h5.H5Sclose(space);
    if (!good) return false;
    variable->n_dims = n_dims;
    variable->n = (size_t)n;
    for (int i = 0; i < n_dims; i++) variable->dim[i] = (size_t)dim[i];
    return true;
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

struct hdf5_file {
    hid_t id;
};

static void hdf5_text(void *file, const char *name, char text[SOFA_TEXT])
{
    struct quiet quiet;
    enter(&quiet);
    attribute_text(((struct hdf5_file *)file)->id, name, text);
    leave(&quiet);
}

static bool hdf5_look(void *file, const char *name, struct sofa_variable *variable)
{
    struct quiet quiet;
    *variable = (struct sofa_variable){0};
    enter(&quiet);
    hid_t data = numbers_open(((struct hdf5_file *)file)->id, name);
    bool good = data >= 0 && shape_read(data, variable);
    if (good) {
        attribute_text(data, "Type", variable->type);
        attribute_text(data, "Units", variable->units);
    }
    if (data >= 0) h5.H5Oclose(data);
    leave(&quiet);
    return good;
}

static bool hdf5_read(void *file, const char *name, size_t n, float *values)
{
    struct quiet quiet;
    struct sofa_variable variable = {0};
    enter(&quiet);
    hid_t data = numbers_open(((struct hdf5_file *)file)->id, name);
    bool good = data >= 0 && shape_read(data, &variable) && variable.n == n &&
                h5.H5Dread(data, h5.native_float, 0, 0, 0, values) >= 0;
    if (data >= 0) h5.H5Oclose(data);
    leave(&quiet);
    return good;
}

static void hdf5_close(void *file)
{
    struct quiet quiet;
    enter(&quiet);
    h5.H5Fclose(((struct hdf5_file *)file)->id);
    leave(&quiet);
    free(file);
}

int sofa_hdf5_open(struct sofa_reader *reader, const char *path, char *why, size_t cap)
{
    struct quiet quiet;
    struct hdf5_file *file = calloc(1, sizeof *file);
    if (!file) return fail(HC_ENOMEM, why, cap, "%s: no memory to open the file; free some", path);
    enter(&quiet);
    bool is_loaded = h5.is_loaded;
    file->id = is_loaded ? h5.H5Fopen(path, 0, 0) : -1; /* 0: to read */
    leave(&quiet);
    if (file->id >= 0) {
        *reader = (struct sofa_reader){file, hdf5_text, hdf5_look, hdf5_read, hdf5_close};
        return HC_OK;
    }
    free(file);
    if (!is_loaded)
        return fail(HC_EUNSUPPORTED, why, cap,
                    "%s: this SOFA file needs HDF5, which cannot be loaded: %s; install %s (Debian: libhdf5-103-1)",
                    path, h5.why, TEXT(HC_HDF5_SONAME));
    return fail(HC_EFILE, why, cap, "%s: is no SOFA file, or it is damaged or cut short; fetch it again", path);
}
#else
int sofa_hdf5_open(struct sofa_reader *reader, const char *path, char *why, size_t cap)
{
    (void)reader;
    return fail(HC_EUNSUPPORTED, why, cap,
                "%s: libmysofa refuses it, and this build has no HDF5; build haloconv with HDF5 (libhdf5-dev)", path);
}
#endif
