/* responses - lists folders and reads responses for previews, in a thread of the window. */
#ifndef RESPONSES_H
#define RESPONSES_H

#include "window.h"

enum { PREVIEW_POINTS = 512 };

struct listing {
    char folder[WINDOW_PATH];
    char error[300];               /* "": read                                                                    */
    int n;
    struct entry {
        char name[256];
        bool is_folder;
    } *entries;                    /* [n], folders first, then by name                                            */
};

struct preview {
    char path[WINDOW_PATH];
    char error[400];               /* "": read                                                                    */
    char facts[160];               /* "2.31 s, 2 channels, 48 kHz, T30 1.92 s"                                    */
    double seconds;                /* 0: the rate is unknown                                                      */
    float low[PREVIEW_POINTS], high[PREVIEW_POINTS]; /* of all channels; the largest magnitude is 1               */
    float decay_db[PREVIEW_POINTS]; /* of the loudest channel; NAN: unknown there                                 */
};

struct responses;

/* NULL: no memory or no thread. has_banks: as in window_model. */
struct responses *responses_open(bool has_banks);
void responses_close(struct responses *responses); /* waits for the thread, which reads at most one more response */

/* The last request wins. */
void responses_want_listing(struct responses *responses, const char *folder);
void responses_want_preview(struct responses *responses, const char *path);

/* The result of the last request; NULL: not yet. The caller frees it. */
struct listing *responses_receive_listing(struct responses *responses);
struct preview *responses_receive_preview(struct responses *responses);
void listing_free(struct listing *listing); /* NULL is allowed; a preview is freed by free() */

#endif
