#include "gpu_module.h"

#include "dsp/base/fork_safety.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODULE "libhaloconv_cuda.so"

static const struct gpu_module *_Atomic loaded; /* written under LOCK_MODULE */

const struct backend *gpu_module_backend(void)
{
    const struct gpu_module *module = atomic_load_explicit(&loaded, memory_order_acquire);
    return module ? module->backend : NULL;
}

/* Returns the module file that HALOCONV_CUDA names. NULL: not set, or the process has raised privileges. */
static const char *named_module(void)
{
    const char *name = secure_getenv("HALOCONV_CUDA");
    return name && name[0] ? name : NULL;
}

bool gpu_is_likely(void)
{
    static const char *const of_the_driver[] = {"/dev/nvidiactl", "/proc/driver/nvidia/version",
                                                "/dev/dxg" /* Windows Subsystem for Linux */};
    if (named_module()) return true;
    for (size_t i = 0; i < sizeof of_the_driver / sizeof *of_the_driver; i++)
        if (access(of_the_driver[i], F_OK) == 0) return true;
    return false;
}

/* ---- is the file to be trusted? ---------------------------------------------------------------------------------- */

bool gpu_module_is_trusted(uid_t owner, mode_t mode, uid_t library_owner)
{
    return (owner == 0 || owner == library_owner) && !(mode & (S_IWGRP | S_IWOTH));
}

static bool read_at(int fd, void *data, size_t n, off_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, (char *)data + done, n - done, at + (off_t)done);
        if (got <= 0 && !(got < 0 && errno == EINTR)) return false;
        if (got > 0) done += (size_t)got;
    }
    return true;
}

/* Returns true if the file is as long as its ELF headers require. The loader does not check: a truncated file would end
 * the process by SIGBUS. */
static bool is_whole(int fd, uint64_t size)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segment;
    if (!read_at(fd, &header, sizeof header, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
    uint64_t table = (uint64_t)header.e_shnum * header.e_shentsize; /* bytes of the section table */
    if (header.e_shoff > size || table > size - header.e_shoff) return false;
    for (int i = 0; i < header.e_phnum; i++) {
        off_t at = (off_t)header.e_phoff + (off_t)i * (off_t)sizeof segment;
        if (!read_at(fd, &segment, sizeof segment, at)) return false;
        if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset) return false;
    }
    return true;
}

/* The file that contains this code: a library, a plugin or a program. */
struct own_file {
    char path[PATH_MAX];
    int folder_length; /* bytes of the path up to the last slash */
    uid_t owner;
};

static bool own_file_find(struct own_file *own)
{
    Dl_info info;
    void *map = NULL;
    struct stat status;
    if (!dladdr1((void *)&loaded, &info, &map, RTLD_DL_LINKMAP) || !map) return false;
    const char *name = ((const struct link_map *)map)->l_name; /* an empty name is the program's */
    char path[2 * PATH_MAX] = "/proc/self/exe";
    if (name[0]) { /* the name is relative to the working folder at the time of loading */
        const char *slash = strrchr(name, '/');
        if (dlinfo(map, RTLD_DI_ORIGIN, path) != 0) return false;
        size_t n = strlen(path);
        snprintf(path + n, sizeof path - n, "/%s", slash ? slash + 1 : name);
    }
    if (!realpath(path, own->path) || stat(own->path, &status) != 0) return false;
    own->folder_length = (int)(strrchr(own->path, '/') + 1 - own->path);
    own->owner = status.st_uid;
    return true;
}

/* May this process use a file or a folder with this owner and mode? is_named: the user chose it with HALOCONV_CUDA. */
static bool is_trusted(const struct stat *status, const struct own_file *own, bool is_named)
{
    if (is_named) return true;
    if (getauxval(AT_SECURE)) return gpu_module_is_trusted(status->st_uid, status->st_mode, own->owner);
    bool is_ours = status->st_uid == 0 || status->st_uid == own->owner || status->st_uid == geteuid();
    return is_ours && !(status->st_mode & S_IWOTH);
}

/* Checks the file at an absolute path without links, and its folder. Folders further up are not checked. */
static int file_check(const char *path, const struct own_file *own, bool is_named, struct reason *why)
{
    struct stat file, folder;
    char above[PATH_MAX];
    snprintf(above, sizeof above, "%.*s", (int)(strrchr(path, '/') + 1 - path), path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO does not block */
    if (fd < 0 || fstat(fd, &file) != 0 || stat(above, &folder) != 0) {
        if (fd >= 0) close(fd);
        return fail(HC_EUNSUPPORTED, why, "the GPU module %s cannot be read: %s; use the CPU", path, strerror(errno));
    }
    bool whole = S_ISREG(file.st_mode) && is_whole(fd, (uint64_t)file.st_size);
    close(fd);
    if (!whole)
        return fail(HC_EUNSUPPORTED, why, "the GPU module %s is damaged; install haloconv-cuda again, or use the CPU",
                    path);
    if (!is_trusted(&file, own, is_named) || !is_trusted(&folder, own, is_named))
        return fail(
            HC_EUNSUPPORTED, why,
            "the GPU module %s or its folder could have been written by a user other than root and the owner of "
            "%s; correct the owner and the mode, or use the CPU",
            path, own->path);
    return HC_OK;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static const struct gpu_module *module_open(const char *name, const struct own_file *own, bool is_named,
                                            struct reason *why)
{
    char path[PATH_MAX];
    const struct gpu_module *(*get)(void);
    if (!realpath(name, path)) {
        fail(HC_EUNSUPPORTED, why, "the GPU module %s cannot be read: %s; use the CPU", name, strerror(errno));
        return NULL;
    }
    if (file_check(path, own, is_named, why) != HC_OK) return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fail(HC_EUNSUPPORTED, why, "the GPU module cannot be loaded: %s; install haloconv-cuda again, or use the CPU",
             dlerror());
        return NULL;
    }
    *(void **)&get = dlsym(library, "haloconv_cuda_module");
    const struct gpu_module *module = get ? get() : NULL;
    const char *version = module ? module->version : NULL; /* NULL: a damaged file */
    if (version && strcmp(version, MODULE_VERSION) == 0) return module;
    if (version)
        fail(HC_EUNSUPPORTED, why,
             "the GPU module %s belongs to haloconv %s, but this is haloconv %s; install the same version of both, or "
             "use the CPU",
             path, version, MODULE_VERSION);
    else
        fail(HC_EUNSUPPORTED, why, "%s is not a GPU module of haloconv; use the CPU", path);
    dlclose(library);
    return NULL;
}

/* Tries the folders that gpu_module.h lists. If no module that it finds is usable, `why` is about the first. */
static const struct gpu_module *module_find(struct reason *why)
{
    static const char *const beside[] = {
        "", "../", "haloconv/", "../lib/haloconv/", "../../haloconv/", "../haloconv_cuda/"};
    enum { BESIDE = sizeof beside / sizeof *beside };
    struct own_file own;
    char path[PATH_MAX + 64];
    const char *named = named_module();
    bool found = false;
    if (named) return module_open(named, NULL, true, why); /* `named` is NULL if the process has raised privileges */
    if (!own_file_find(&own)) {
        fail(HC_EUNSUPPORTED, why,
             "the path of the haloconv library is unknown, so that no GPU module is loaded; use the CPU");
        return NULL;
    }
    for (int i = 0; i <= BESIDE; i++) {
        if (i < BESIDE)
            snprintf(path, sizeof path, "%.*s%s" MODULE, own.folder_length, own.path, beside[i]);
        else
            snprintf(path, sizeof path, LIBDIR "/haloconv/" MODULE);
        if (access(path, F_OK) != 0) continue;
        const struct gpu_module *module = module_open(path, &own, false, found ? NULL : why);
        if (module) return module;
        found = true;
    }
    if (!found)
        fail(HC_EUNSUPPORTED, why,
             "the GPU module " MODULE
             " is missing; install haloconv-cuda (from source: make, with nvcc), or use the CPU; "
             "haloconv looked beside %s, in lib/haloconv near it, and in " LIBDIR "/haloconv",
             own.path);
    return NULL;
}

const struct gpu_module *gpu_module_load(struct reason *why)
{
    const struct gpu_module *module = atomic_load_explicit(&loaded, memory_order_acquire);
    if (module) return module;
    global_lock(LOCK_MODULE);
    module = atomic_load_explicit(&loaded, memory_order_relaxed);
    if (!module) module = module_find(why);
    atomic_store_explicit(&loaded, module, memory_order_release);
    global_unlock(LOCK_MODULE);
    return module;
}
