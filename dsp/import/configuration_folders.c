#include "configuration_folders.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char *path_join(struct arena *arena, const char *folder, size_t length, const char *name)
{
    size_t bytes = length + strlen(name) + 2;
    char *path = arena_alloc(arena, bytes, 1);
    if (path)
        snprintf(path, bytes, "%.*s%s%s", (int)length, folder, length && folder[length - 1] != '/' ? "/" : "", name);
    return path;
}

/* Returns the path of a name in the configuration's own folder. */
static char *path_in_own_folder(const struct configuration *c, const char *name)
{
    const char *path = c->diagnostics.path, *slash = strrchr(path, '/');
    return path_join(c->arena, path, slash ? (size_t)(slash - path) + 1 : 0, name);
}

/* Chooses the folder of a relative /cd. jconvolver looks for it where it was started, folve and mcfx_convolver in the
 * configuration's folder. Returns the folder that exists; if both exist, the one in the configuration's folder. */
static const char *folder_find(struct configuration *c, struct folder *folder)
{
    struct stat own_status, working_status;
    if (folder->found) return folder->found;
    folder->found = folder->path;
    if (*folder->path == '/') return folder->found;
    char *own = path_in_own_folder(c, folder->path);
    if (!own) return folder->found;
    bool is_own = stat(own, &own_status) == 0 && S_ISDIR(own_status.st_mode);
    bool is_working = stat(folder->path, &working_status) == 0 && S_ISDIR(working_status.st_mode);
    if (is_own || !is_working) folder->found = own;
    if (is_own &&
        (!is_working || own_status.st_dev != working_status.st_dev || own_status.st_ino != working_status.st_ino))
        diagnostic(&c->diagnostics, HC_OK, folder->line, "/cd",
                   "%s is read from the configuration's folder, but jconvolver reads it from its working directory; "
                   "write its full path",
                   folder->path);
    if (!is_own && is_working)
        diagnostic(&c->diagnostics, HC_OK, folder->line, "/cd",
                   "%s is read from the working directory, since the configuration's folder does not contain it; write "
                   "its full path",
                   folder->path);
    return folder->found;
}

bool configuration_folder_exists(const struct configuration *c, const char *path)
{
    struct stat status;
    if (strstr(path, "%r") || (stat(path, &status) == 0 && S_ISDIR(status.st_mode))) return true;
    const char *own = *path == '/' ? NULL : path_in_own_folder(c, path);
    return own && stat(own, &status) == 0 && S_ISDIR(status.st_mode);
}

const char *configuration_path(struct configuration *c, struct folder *folder, const char *name)
{
    if (*name == '/') return arena_text(c->arena, name);
    if (!folder) return path_in_own_folder(c, name);
    const char *found = folder_find(c, folder);
    return path_join(c->arena, found, strlen(found), name);
}
