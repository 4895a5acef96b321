/* sofa_hdf5 - reads SOFA files with HDF5: SOFA is netCDF-4, and netCDF-4 is HDF5.
 *
 * The library is loaded with dlopen when the first file needs it. All calls are under one lock: Debian's build is not
 * thread-safe. Between calls, HDF5's message settings are those of the host program.
 */
#include "dsp/base/error.h"
#include "dsp/base/fork_safety.h"
#include "sofa_reader.h"

#ifdef HC_WITH_HDF5
#include <dlfcn.h>
#define H5Dread_chunk_vers 1 /* of the two that HDF5 2 has, the one of HDF5 1 */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

/* The functions of HDF5 that are called. Macros such as H5F_ACC_RDONLY are not used: they call a function that ends the
 * process if the library has another release than the header. */
/* clang-format off */
#define FUNCTIONS(F)                                                                                                   \
    F(H5open) F(H5get_libversion) F(H5free_memory) F(H5Eget_auto2) F(H5Eset_auto2)                                     \
    F(H5Fopen) F(H5Fclose) F(H5Lexists) F(H5Oopen) F(H5Oclose) F(H5Iget_type)                                          \
    F(H5Dget_space) F(H5Dget_type) F(H5Dread) F(H5Dget_create_plist) F(H5Dread_chunk) F(H5Dget_chunk_storage_size)     \
    F(H5Dget_storage_size) F(H5Sget_simple_extent_ndims) F(H5Sget_simple_extent_dims) F(H5Sget_simple_extent_npoints)  \
    F(H5Sclose) F(H5Aexists) F(H5Aopen) F(H5Aget_type) F(H5Aget_space) F(H5Aread) F(H5Aclose)                          \
    F(H5Tget_class) F(H5Tget_size) F(H5Tget_precision) F(H5Tget_offset) F(H5Tequal) F(H5Tconvert) F(H5Tis_variable_str)\
    F(H5Tclose) F(H5Pcreate) F(H5Pset_elink_cb) F(H5Pget_layout) F(H5Pget_chunk) F(H5Pget_nfilters) F(H5Pget_filter2)  \
    F(H5Pget_external_count) F(H5Pclose)
/* clang-format on */
/* HDF5's types and a class of property lists: variables that H5open sets. */
#define IDS(T)                                                                                                         \
    T(H5T_NATIVE_FLOAT_g)                                                                                              \
    T(H5T_IEEE_F32LE_g) T(H5T_IEEE_F32BE_g) T(H5T_IEEE_F64LE_g) T(H5T_IEEE_F64BE_g) T(H5P_CLS_LINK_ACCESS_ID_g)

static struct {
#define POINTER(name) __typeof__(&(name)) name;
    FUNCTIONS(POINTER)
#define ID(name) hid_t name;
    IDS(ID)
    bool is_loaded, has_failed;
    char why[200];
} h5; /* under LOCK_SOFA */

static void library_load(void)
{
    void *library = dlopen(TEXT(HC_HDF5_SONAME), RTLD_NOW | RTLD_LOCAL); /* never close it: it has an exit handler */
    bool all = library != NULL;
#define FIND(name)                                                                                                     \
    if (all) *(void **)&h5.name = dlsym(library, TEXT(name)), all = h5.name != NULL;
    FUNCTIONS(FIND)
    unsigned major = 0, minor = 0, release = 0;
    if (!all || h5.H5open() < 0 || h5.H5get_libversion(&major, &minor, &release) < 0) {
        const char *error = all ? NULL : dlerror();
        snprintf(h5.why, sizeof h5.why, "%s", error ? error : "HDF5 does not start");
    } else if (major != H5_VERS_MAJOR || minor != H5_VERS_MINOR) {
        snprintf(h5.why, sizeof h5.why, "HDF5 has version %u.%u, but this build needs %d.%d", major, minor,
                 H5_VERS_MAJOR, H5_VERS_MINOR);
    } else {
        const hid_t *id;
#define FIND_ID(name) id = dlsym(library, #name), all = all && id, h5.name = id ? *id : -1;
        IDS(FIND_ID)
        h5.is_loaded = all;
        if (!all) snprintf(h5.why, sizeof h5.why, "HDF5 lacks a type");
    }
    h5.has_failed = !h5.is_loaded;
}

/* The message handler of the host program, saved while messages are off. */
struct quiet {
    H5E_auto2_t function;
    void *data;
};

static void enter(struct quiet *quiet)
{
    global_lock(LOCK_SOFA);
    if (!h5.is_loaded && !h5.has_failed) library_load();
    if (!h5.is_loaded) return;
    if (h5.H5Eget_auto2(0, &quiet->function, &quiet->data) < 0) *quiet = (struct quiet){NULL, NULL};
    h5.H5Eset_auto2(0, NULL, NULL);
}

static void quiet_leave(const struct quiet *quiet)
{
    if (h5.is_loaded) h5.H5Eset_auto2(0, quiet->function, quiet->data);
    global_unlock(LOCK_SOFA);
}

/* ---- under the lock ---------------------------------------------------------------------------------------------- */

static void hdf5_attribute_text(hid_t object, const char *name, char text[SOFA_TEXT])
{
    enum { LONGEST = 4096 };
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
            snprintf(text, SOFA_TEXT, "%.*s", SOFA_TEXT - 1, value);
            h5.H5free_memory(value);
        }
    } else if (is_text && size > 0 && size < LONGEST) {
        char value[LONGEST] = "";
        if (h5.H5Aread(attribute, type, value) >= 0) snprintf(text, SOFA_TEXT, "%.*s", SOFA_TEXT - 1, value);
    }
    if (space >= 0) h5.H5Sclose(space);
    if (type >= 0) h5.H5Tclose(type);
    if (attribute >= 0) h5.H5Aclose(attribute);
}

/* Is this the machine's type of number? HDF5 would convert other types with code that few files test. */
static bool is_plain_number(hid_t type)
{
    H5T_class_t class = h5.H5Tget_class(type);
    size_t size = h5.H5Tget_size(type);
    if (class == H5T_INTEGER)
        return (size == 1 || size == 2 || size == 4 || size == 8) && h5.H5Tget_precision(type) == 8 * size &&
               h5.H5Tget_offset(type) == 0;
    return class == H5T_FLOAT &&
           (h5.H5Tequal(type, h5.H5T_IEEE_F32LE_g) > 0 || h5.H5Tequal(type, h5.H5T_IEEE_F32BE_g) > 0 ||
            h5.H5Tequal(type, h5.H5T_IEEE_F64LE_g) > 0 || h5.H5Tequal(type, h5.H5T_IEEE_F64BE_g) > 0);
}

/* Refuses links to other files; HDF5 calls it before it opens one. A link may name any file, even a FIFO. */
static herr_t link_refuse(const char *file, const char *group, const char *to_file, const char *to, unsigned *flags,
                          hid_t access, void *is_elsewhere)
{
    (void)file, (void)group, (void)to_file, (void)to, (void)flags, (void)access;
    *(bool *)is_elsewhere = true;
    return -1;
}

/* Opens an object of this file. -1: the file has no object of this name. */
static hid_t object_open(hid_t file, const char *name, bool *is_elsewhere)
{
    if (h5.H5Lexists(file, name, 0) <= 0) return -1;
    hid_t access = h5.H5Pcreate(h5.H5P_CLS_LINK_ACCESS_ID_g), object = -1;
    if (access >= 0 && h5.H5Pset_elink_cb(access, link_refuse, is_elsewhere) >= 0)
        object = h5.H5Oopen(file, name, access);
    if (access >= 0) h5.H5Pclose(access);
    return object;
}

/* Does another file have the values: an external file, or the sources of a virtual dataset? */
static bool is_stored_elsewhere(hid_t data)
{
    hid_t list = h5.H5Dget_create_plist(data);
    bool elsewhere = list >= 0 && (h5.H5Pget_layout(list) == H5D_VIRTUAL || h5.H5Pget_external_count(list) > 0);
    if (list >= 0) h5.H5Pclose(list);
    return elsewhere;
}

/* Opens a dataset of numbers. -1: the file has no such dataset; *is_elsewhere: another file has its values. */
static hid_t numbers_open(hid_t file, const char *name, bool *is_elsewhere)
{
    *is_elsewhere = false;
    hid_t data = object_open(file, name, is_elsewhere);
    if (data < 0) return -1;
    hid_t type = h5.H5Iget_type(data) == H5I_DATASET ? h5.H5Dget_type(data) : -1;
    bool good = type >= 0 && is_plain_number(type);
    if (type >= 0) h5.H5Tclose(type);
    if (good && is_stored_elsewhere(data)) *is_elsewhere = true;
    if (good && !*is_elsewhere) return data;
    h5.H5Oclose(data);
    return -1;
}

static bool hdf5_shape_read(hid_t data, struct sofa_variable *variable)
{
    hsize_t dim[SOFA_MAX_DIMS] = {0};
    hid_t space = h5.H5Dget_space(data);
    if (space < 0) return false;
    int n_dims = h5.H5Sget_simple_extent_ndims(space);
    hssize_t n = h5.H5Sget_simple_extent_npoints(space);
    bool good = n_dims >= 0 && n_dims <= SOFA_MAX_DIMS && n >= 0 &&
                (n_dims == 0 || h5.H5Sget_simple_extent_dims(space, dim, NULL) == n_dims);
    h5.H5Sclose(space);
    if (!good) return false;
    variable->n_dims = n_dims;
    variable->n = (size_t)n;
    for (int i = 0; i < n_dims; i++) variable->dim[i] = (size_t)dim[i];
    return true;
}

/* ---- under the lock: samples ------------------------------------------------------------------------------------- *
 * HDF5 1.10 assumes that an unpacked chunk has the size of its shape, and reads beyond the end of a shorter chunk. So
 * the chunks are unpacked here.
 */

enum { DEFLATE = 1, SHUFFLE = 2, CHECKSUM = 3, MAX_FILTERS = 4 }; /* numbers of HDF5's filters */
static const double max_chunk_bytes = 1 << 30;
static const double max_inflation = 1100; /* deflate packs at most 1032 bytes into one */

struct chunked {
    hid_t data, type;
    double file_bytes;
    size_t type_bytes, n_values, bytes; /* bytes of a value; number of values and bytes in a chunk */
    int n_dims, n_filters;
    hsize_t dim[SOFA_MAX_DIMS]; /* dimensions of the chunk            */
    H5Z_filter_t filters[MAX_FILTERS];
    unsigned char *packed, *unpacked; /* [capacity]                         */
    size_t capacity;                  /* bytes for a chunk, or a packed one */
};

/* Inflates in[n_in] to at most `capacity` bytes. Returns their number; 0: the data are damaged. */
static size_t inflated(const unsigned char *in, size_t n_in, unsigned char *out, size_t capacity)
{
    uLongf n_out = (uLongf)capacity;
    return uncompress(out, &n_out, in, (uLong)n_in) == Z_OK ? (size_t)n_out : 0;
}

/* Undoes the shuffle filter, which stores the first bytes of all values, then all second bytes, ... */
static void unshuffle(const unsigned char *in, size_t n, size_t type_bytes, unsigned char *out)
{
    size_t n_values = n / type_bytes;
    for (size_t b = 0; b < type_bytes; b++)
        for (size_t i = 0; i < n_values; i++) out[i * type_bytes + b] = in[b * n_values + i];
    memcpy(out + n_values * type_bytes, in + n_values * type_bytes, n % type_bytes);
}

/* Computes the Fletcher checksum of HDF5, over words of 16 bits, high byte first. */
static uint32_t fletcher32(const unsigned char *in, size_t n)
{
    uint32_t sum = 0, sum_of_sums = 0;
    for (size_t i = 0; i < n; i += 2) {
        sum = (sum + ((uint32_t)in[i] << 8 | (i + 1 < n ? in[i + 1] : 0u))) % 65535;
        sum_of_sums = (sum_of_sums + sum) % 65535;
    }
    return sum_of_sums << 16 | sum;
}

/* Compares the checksum of in[n] with the four bytes behind it. A sum of 0 may be stored as 65535, which is equal
 * modulo 65535. */
static bool checksum_fits(const unsigned char *in, size_t n)
{
    uint32_t sum = fletcher32(in, n), low = in[n] | (uint32_t)in[n + 1] << 8;
    uint32_t high = in[n + 2] | (uint32_t)in[n + 3] << 8;
    return low % 65535 == (sum & 65535) && high % 65535 == sum >> 16;
}

/* Undoes the filters of packed[n], the last filter first. Returns true if `packed` then has a whole chunk. */
static bool unpack(struct chunked *c, size_t n, unsigned skipped)
{
    for (int i = c->n_filters - 1; i >= 0; i--) {
        if (skipped >> i & 1) continue;
        if (c->filters[i] == CHECKSUM) {
            if (n < 4 || !checksum_fits(c->packed, n - 4)) return false;
            n -= 4;
            continue;
        }
        if (c->filters[i] == DEFLATE)
            n = inflated(c->packed, n, c->unpacked, c->capacity);
        else
            unshuffle(c->packed, n, c->type_bytes, c->unpacked);
        unsigned char *swap = c->packed;
        c->packed = c->unpacked;
        c->unpacked = swap;
    }
    return n == c->bytes;
}

/* Copies those values of the chunk at offset[] that are inside the variable. */
static void hdf5_chunk_copy(const struct chunked *c, const struct sofa_variable *v, const hsize_t *offset,
                            float *values)
{
    size_t dim[SOFA_MAX_DIMS], chunk[SOFA_MAX_DIMS], at[SOFA_MAX_DIMS];
    int unused = SOFA_MAX_DIMS - c->n_dims; /* dimensions of 1 in front */
    for (int d = 0; d < SOFA_MAX_DIMS; d++) {
        dim[d] = d < unused ? 1 : v->dim[d - unused];
        chunk[d] = d < unused ? 1 : (size_t)c->dim[d - unused];
        at[d] = d < unused ? 0 : (size_t)offset[d - unused];
    }
    const float *from = (const float *)(const void *)c->packed;
    for (size_t i = 0; i < chunk[0] && at[0] + i < dim[0]; i++)
        for (size_t j = 0; j < chunk[1] && at[1] + j < dim[1]; j++)
            for (size_t k = 0; k < chunk[2] && at[2] + k < dim[2]; k++) {
                size_t n = dim[3] - at[3] < chunk[3] ? dim[3] - at[3] : chunk[3];
                memcpy(values + (((at[0] + i) * dim[1] + at[1] + j) * dim[2] + at[2] + k) * dim[3] + at[3],
                       from + ((i * chunk[1] + j) * chunk[2] + k) * chunk[3], n * sizeof *values);
            }
}

static bool hdf5_chunk_read(struct chunked *c, const struct sofa_variable *v, const hsize_t *offset, float *values)
{
    hsize_t bytes = 0;
    uint32_t skipped = 0;
    if (h5.H5Dget_chunk_storage_size(c->data, offset, &bytes) < 0 || bytes == 0 || bytes > c->capacity ||
        h5.H5Dread_chunk(c->data, 0, offset, &skipped, c->packed) < 0 || !unpack(c, (size_t)bytes, skipped) ||
        h5.H5Tconvert(c->type, h5.H5T_NATIVE_FLOAT_g, c->n_values, c->packed, NULL, 0) < 0)
        return false;
    hdf5_chunk_copy(c, v, offset, values);
    return true;
}

/* Finds the shape and the filters of the chunks. false: netCDF has no such filter, or a size is out of range. */
static bool chunked_look(struct chunked *c, hid_t list, const struct sofa_variable *v)
{
    double n = 1;
    c->n_dims = v->n_dims;
    c->n_filters = h5.H5Pget_nfilters(list);
    c->type_bytes = h5.H5Tget_size(c->type);
    if (c->n_filters < 0 || c->n_filters > MAX_FILTERS || h5.H5Pget_chunk(list, c->n_dims, c->dim) != c->n_dims)
        return false;
    for (int d = 0; d < c->n_dims; d++) n *= (double)c->dim[d];
    if (!(n >= 1 && n * 8 <= max_chunk_bytes && n * (double)c->type_bytes <= max_inflation * c->file_bytes))
        return false;
    for (int i = 0; i < c->n_filters; i++) {
        unsigned flags = 0, configuration = 0;
        size_t n_values = 0;
        c->filters[i] = h5.H5Pget_filter2(list, (unsigned)i, &flags, &n_values, NULL, 0, NULL, &configuration);
        if (c->filters[i] != DEFLATE && c->filters[i] != SHUFFLE && c->filters[i] != CHECKSUM) return false;
    }
    c->n_values = (size_t)n;
    c->bytes = c->n_values * c->type_bytes;
    c->capacity = c->n_values * (c->type_bytes < sizeof(float) ? sizeof(float) : c->type_bytes) + c->bytes / 8 + 4096;
    return true;
}

static bool chunks_read(hid_t data, hid_t type, hid_t list, double file_bytes, const struct sofa_variable *v,
                        float *values)
{
    struct chunked c = {.data = data, .type = type, .file_bytes = file_bytes};
    hsize_t offset[SOFA_MAX_DIMS] = {0};
    if (!chunked_look(&c, list, v)) return false;
    c.packed = malloc(c.capacity);
    c.unpacked = malloc(c.capacity);
    bool good = c.packed && c.unpacked;
    while (good) {
        good = hdf5_chunk_read(&c, v, offset, values);
        int d = c.n_dims - 1;
        for (; d >= 0; d--) { /* go to the next chunk */
            offset[d] += c.dim[d];
            if (offset[d] < v->dim[d]) break;
            offset[d] = 0;
        }
        if (d < 0) break;
    }
    free(c.packed);
    free(c.unpacked);
    return good;
}

static bool hdf5_samples_read(hid_t data, double file_bytes, const struct sofa_variable *v, float *values)
{
    hid_t type = h5.H5Dget_type(data), list = h5.H5Dget_create_plist(data);
    bool good = type >= 0 && list >= 0 && v->n > 0;
    H5D_layout_t layout = good ? h5.H5Pget_layout(list) : H5D_LAYOUT_ERROR;
    if (good && layout == H5D_CHUNKED)
        good = chunks_read(data, type, list, file_bytes, v, values);
    else /* not in chunks: the file stores all values in a row */
        good = good && (layout == H5D_CONTIGUOUS || layout == H5D_COMPACT) &&
               h5.H5Dget_storage_size(data) == v->n * h5.H5Tget_size(type) &&
               h5.H5Dread(data, h5.H5T_NATIVE_FLOAT_g, 0, 0, 0, values) >= 0;
    if (list >= 0) h5.H5Pclose(list);
    if (type >= 0) h5.H5Tclose(type);
    return good;
}

/* Does the file store enough bytes for all values of a variable? A header may claim more bytes than the file has. */
static bool is_there(hid_t data, double file_bytes, const struct sofa_variable *v)
{
    double stored = (double)h5.H5Dget_storage_size(data);
    return stored <= file_bytes && (double)v->n <= max_inflation * stored;
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

struct hdf5_file {
    hid_t id;
    double bytes;
};

static void hdf5_text(void *file, const char *name, char text[SOFA_TEXT])
{
    struct quiet quiet = {NULL, NULL};
    enter(&quiet);
    hdf5_attribute_text(((struct hdf5_file *)file)->id, name, text);
    quiet_leave(&quiet);
}

static bool hdf5_look(void *of, const char *name, struct sofa_variable *variable)
{
    const struct hdf5_file *file = of;
    struct quiet quiet = {NULL, NULL};
    *variable = (struct sofa_variable){0};
    enter(&quiet);
    hid_t data = numbers_open(file->id, name, &variable->is_elsewhere);
    bool good = data >= 0 && hdf5_shape_read(data, variable) && is_there(data, file->bytes, variable);
    if (good) {
        hdf5_attribute_text(data, "Type", variable->type);
        hdf5_attribute_text(data, "Units", variable->units);
    }
    if (data >= 0) h5.H5Oclose(data);
    quiet_leave(&quiet);
    return good || variable->is_elsewhere;
}

static bool hdf5_read(void *of, const char *name, size_t n, float *values)
{
    const struct hdf5_file *file = of;
    struct quiet quiet = {NULL, NULL};
    struct sofa_variable variable = {0};
    enter(&quiet);
    hid_t data = numbers_open(file->id, name, &variable.is_elsewhere);
    bool good = data >= 0 && hdf5_shape_read(data, &variable) && variable.n == n &&
                hdf5_samples_read(data, file->bytes, &variable, values);
    if (data >= 0) h5.H5Oclose(data);
    quiet_leave(&quiet);
    return good;
}

static void hdf5_close(void *file)
{
    struct quiet quiet = {NULL, NULL};
    enter(&quiet);
    h5.H5Fclose(((struct hdf5_file *)file)->id);
    quiet_leave(&quiet);
    free(file);
}

int sofa_hdf5_open(struct sofa_reader *reader, const char *path, struct reason *why)
{
    struct quiet quiet = {NULL, NULL};
    struct hdf5_file *file = calloc(1, sizeof *file);
    struct stat status;
    if (!file) return fail(HC_ENOMEM, why, "%s: no memory to open the file; free some memory", path);
    enter(&quiet);
    bool is_loaded = h5.is_loaded;
    file->id = is_loaded ? h5.H5Fopen(path, 0, 0) : -1; /* flags 0: read only */
    quiet_leave(&quiet);
    if (file->id >= 0) {
        file->bytes = stat(path, &status) == 0 ? (double)status.st_size : 0;
        *reader = (struct sofa_reader){file, hdf5_text, hdf5_look, hdf5_read, hdf5_close};
        return HC_OK;
    }
    free(file);
    if (!is_loaded)
        return fail(HC_EUNSUPPORTED, why,
                    "%s: this SOFA file needs HDF5, which cannot be loaded: %s; install %s (Debian: libhdf5-103-1)",
                    path, h5.why, TEXT(HC_HDF5_SONAME));
    return fail(HC_EFILE, why, "%s: is not a SOFA file, or is damaged or cut short; download it again, or restore it",
                path);
}
#else
int sofa_hdf5_open(struct sofa_reader *reader, const char *path, struct reason *why)
{
    (void)reader;
    return fail(HC_EUNSUPPORTED, why,
                "%s: libmysofa refuses the file, and this build has no HDF5; build haloconv with HDF5 (libhdf5-dev)",
                path);
}
#endif
