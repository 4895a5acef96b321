/* panel_upload - files that clients of a panel upload: each goes into a file of the panel's folder, and gets its name
 * when the reader of masks has accepted it. Only sound files, and texts that can name no file, are accepted: a
 * configuration may name any file of this machine, and a damaged SOFA file may crash HDF5. */
#ifndef PANEL_UPLOAD_H
#define PANEL_UPLOAD_H

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- a limit that refills --------------------------------------------------------------------- */

/* A limit: credit comes with time, up to a burst; who uses it subtracts, also below 0. */

struct bucket {
    double credit;          /* begins as the burst                                                   */
    double since_s;         /* time of the last bucket_fill                                          */
};

/* Adds `rate` a second, up to `burst`. */
static inline void bucket_fill(struct bucket *b, double rate, double burst, double now)
{
    b->credit = fmin(burst, b->credit + rate * (now - b->since_s));
    b->since_s = now;
}

/* ---- uploads ---------------------------------------------------------------------------------- */

enum {
    PANEL_UPLOAD_SAMPLES = 1 << 24, /* max. of a file, at the session's rate; its bytes: PANEL_MAX_BODY */
    PANEL_UPLOAD_TEXT = 1 << 20,  /* bytes of a text                                                 */
    PANEL_UPLOAD_ALL = 1 << 30,   /* max. of a session's files together                              */
    PANEL_UPLOADS = 10,           /* at once; then one every PANEL_UPLOAD_S                          */
    PANEL_UPLOAD_S = 6
};

struct panel_folder {
    char path[PATH_MAX];
    int fd;
    bool is_private;            /* removed by panel_folder_close                                     */
    int64_t bytes;              /* of the uploads, also of those that are arriving                   */
    uint64_t n;                 /* uploads since the start                                           */
    struct bucket begins;       /* uploads that may begin                                            */
};

struct panel_upload {
    int fd;                     /* -1: not begun, or ended                                           */
    int64_t expected, received; /* bytes                                                             */
    char part[64];              /* name of the file that is arriving, in the folder; "": none        */
    char name[256];             /* the name that it will have                                        */
    char path[PATH_MAX + 256];  /* after panel_upload_check: its path                                */
};

/* path NULL: makes a private folder in $XDG_RUNTIME_DIR or /tmp. is_private: the path is such a folder. false: why has
 * the reason. */
bool panel_folder_open(struct panel_folder *folder, const char *path, bool is_private, char *why, size_t cap);
void panel_folder_close(struct panel_folder *folder);

/* Removes the files and the name of a private folder, which stays open. */
void panel_folder_empty(struct panel_folder *folder);

/* Begins an upload of a file. Returns 0, or a status of HTTP: why has the reason. */
int panel_upload_begin(struct panel_folder *folder, struct panel_upload *upload, const char *name, int64_t bytes,
                       char *why, size_t cap);
/* Adds bytes; the result is that of panel_upload_begin. */
int panel_upload_add(struct panel_upload *upload, const void *bytes, size_t n, char *why, size_t cap);
bool panel_upload_is_whole(const struct panel_upload *upload);

/* Reads the file as a mask for n_in inputs at a rate, and gives it its name. Another thread may make this call. false:
 * why has the reason. */
bool panel_upload_check(struct panel_folder *folder, struct panel_upload *upload, int n_in, int rate, char *why,
                        size_t cap);

/* Removes what has arrived, unless it has its name. */
void panel_upload_end(struct panel_folder *folder, struct panel_upload *upload);

#endif
