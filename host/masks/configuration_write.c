#include "configuration_write.h"

#include "host/files/text_out.h"
#include "host/message.h"
#include "mask_write.h"

#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHANNELS = 1024, PARTITION = 1024 }; /* channels of a file; partition if the mask has none */

struct written_response { /* taps of one or more routes */
    const float *taps;    /* [n_taps]; 1 tap needs no file    */
    int n_taps, order;    /* order: index by first appearance */
    const char *file;     /* NULL: not in a file yet          */
    int channel;
    bool is_owner; /* this response frees `file`, which others may share */
};

struct writer {
    struct configuration_out *out;
    struct written_response *all; /* [n]      */
    int n, rate;
    void *known; /* tsearch(3) of `all` */
    int *of_route;
};

static bool writer_no_memory(const struct writer *w, char *why, size_t cap)
{
    return message_write(why, cap, "%s: no memory; free some memory", w->out->path);
}

/* ---- responses ---------------------------------------------------------------------------------- */

static int by_taps(const void *a, const void *b)
{
    const struct written_response *p = a, *q = b;
    if (p->taps != q->taps) return p->taps < q->taps ? -1 : 1;
    return (p->n_taps > q->n_taps) - (p->n_taps < q->n_taps);
}

static bool find_responses(struct writer *w, char *why, size_t cap)
{
    const hc_responses *mask = w->out->mask;
    w->all = calloc((size_t)mask->n_routes + 1, sizeof *w->all);
    w->of_route = calloc((size_t)mask->n_routes + 1, sizeof *w->of_route);
    if (!w->all || !w->of_route) return writer_no_memory(w, why, cap);
    for (int i = 0; i < mask->n_routes; i++) {
        struct written_response *new = &w->all[w->n];
        *new = (struct written_response){.taps = mask->routes[i].taps, .n_taps = mask->routes[i].n_taps, .order = w->n};
        void *node = tsearch(new, &w->known, by_taps);
        if (!node) return writer_no_memory(w, why, cap);
        w->of_route[i] = (*(struct written_response **)node)->order;
        w->n += *(struct written_response **)node == new;
    }
    return true;
}

/* ---- sound files that exist --------------------------------------------------------------------- */

/* Returns a file's path for the configuration: the name if both are in one folder, else all of it. NULL: no memory. */
static char *path_from(const char *configuration, const char *file)
{
    const char *slash = strrchr(configuration, '/');
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - configuration) + 1 : 2, slash ? configuration : "./");
    char *own = realpath(folder, NULL), *full = realpath(file, NULL);
    char *last = full ? strrchr(full, '/') : NULL;
    bool is_beside = own && last && strlen(own) == (size_t)(last - full) && memcmp(own, full, strlen(own)) == 0;
    char *path = is_beside ? strdup(last + 1) : full ? strdup(full) : NULL;
    free(own);
    free(full);
    return path;
}

/* Returns the channel of the file that equals this response; -1: none. */
static int channel_of(const hc_responses *file, const struct written_response *r)
{
    if (r->n_taps != file->n_frames || r->n_taps == 1) return -1;
    for (int ch = 0; ch < file->n_channels; ch++)
        if (memcmp(r->taps, file->channel[ch], (size_t)r->n_taps * sizeof *r->taps) == 0) return ch;
    return -1;
}

/* Finds responses that are whole channels of a sound file which the mask names. */
static bool find_in_file(struct writer *w, const char *path, char *why, size_t cap)
{
    hc_responses file;
    char found[PATH_MAX];
    if (hc_responses_find(path, w->rate, found, sizeof found, NULL, 0) != HC_OK ||
        hc_responses_load(found, 0, 0, HC_KEEP_RATE, &file, NULL, 0) != HC_OK)
        return true;
    char *name = path_from(w->out->path, found);
    bool is_used = false;
    for (int i = 0; name && file.file_rate == w->rate && i < w->n; i++) {
        struct written_response *r = &w->all[i];
        int ch = r->file ? -1 : channel_of(&file, r);
        if (ch < 0) continue;
        r->file = name;
        r->channel = ch;
        r->is_owner = !is_used;
        is_used = true;
    }
    hc_responses_free(&file);
    if (!name) return writer_no_memory(w, why, cap);
    if (!is_used) free(name);
    return true;
}

/* ---- files that are written --------------------------------------------------------------------- */

/* Makes a name in the folder of the configuration that no input file has: hall-1.wav, ... NULL: no memory. */
static char *response_file_name(struct writer *w, int *number)
{
    size_t stem = strlen(w->out->path) - strlen(".conf"), bytes = stem + 24;
    char *path = malloc(bytes), why[MESSAGE_CAP];
    bool is_free = false;
    while (path && !is_free) {
        snprintf(path, bytes, "%.*s-%d.wav", (int)stem, w->out->path, ++*number);
        is_free = files_read_spare(w->out->read, path, why, sizeof why);
    }
    return path;
}

/* Writes `n` responses of one length, a channel each. */
static bool writer_write_file(struct writer *w, struct written_response **group, int n, int *number, char *why,
                              size_t cap)
{
    struct configuration_out *out = w->out;
    size_t n_taps = (size_t)group[0]->n_taps;
    char *path = response_file_name(w, number);
    double *h = malloc((size_t)n * n_taps * sizeof *h);
    struct written_file *files = realloc(out->files, ((size_t)out->n_files + 1) * sizeof *files);
    if (files) out->files = files;
    bool good = path && h && files;
    if (!good) writer_no_memory(w, why, cap);
    for (int k = 0; good && k < n; k++)
        for (size_t i = 0; i < n_taps; i++) h[(size_t)k * n_taps + i] = (double)group[k]->taps[i];
    good =
        good &&
        mask_write(&(struct mask_out){.path = path, .rate = w->rate, .n_channels = n, .n_frames = (int)n_taps, .h = h},
                   why, cap);
    free(h);
    if (!good) {
        free(path);
        return false;
    }
    const char *slash = strrchr(path, '/');
    for (int k = 0; k < n; k++) {
        group[k]->file = slash ? slash + 1 : path;
        group[k]->channel = k;
    }
    out->files[out->n_files++] = (struct written_file){path, n, (int)n_taps};
    return true;
}

static int by_length(const void *a, const void *b)
{
    const struct written_response *p = *(struct written_response *const *)a, *q = *(struct written_response *const *)b;
    if (p->n_taps != q->n_taps) return p->n_taps < q->n_taps ? -1 : 1;
    return (p->order > q->order) - (p->order < q->order);
}

static bool write_files(struct writer *w, char *why, size_t cap)
{
    struct written_response **left = calloc((size_t)w->n + 1, sizeof *left);
    int n = 0, number = 0, same;
    if (!left) return writer_no_memory(w, why, cap);
    for (int i = 0; i < w->n; i++)
        if (w->all[i].n_taps > 1 && !w->all[i].file) left[n++] = &w->all[i];
    qsort(left, (size_t)n, sizeof *left, by_length);
    bool good =
        n == 0 || w->out->mask->rate ||
        message_write(why, cap, "%s: its files have no rate, or several; give a rate with --rate", w->out->source);
    for (int i = 0; good && i < n; i += same) {
        for (same = 1; i + same < n && same < MAX_CHANNELS && left[i + same]->n_taps == left[i]->n_taps; same++) {}
        good = writer_write_file(w, left + i, same, &number, why, cap);
    }
    free(left);
    return good;
}

/* ---- the text ----------------------------------------------------------------------------------- */

static void print_quoted(FILE *text, const char *word)
{
    fputs(" \"", text);
    for (; *word; word++) fprintf(text, strchr("\"\\", *word) ? "\\%c" : "%c", *word == '\n' ? ' ' : *word);
    fputc('"', text);
}

static void writer_print_ports(FILE *text, const char *command, const char *stem, const hc_port *ports, int n)
{
    for (int ch = 0; ports && ch < n; ch++) {
        char usual[16];
        snprintf(usual, sizeof usual, "%s-%d", stem, ch + 1);
        if (strcmp(ports[ch].name, usual) == 0 && !ports[ch].connect) continue;
        fprintf(text, "%s %d", command, ch + 1);
        print_quoted(text, ports[ch].name);
        if (ports[ch].connect) print_quoted(text, ports[ch].connect);
        fputc('\n', text);
    }
}

static void writer_print_text(FILE *text, const void *data)
{
    const struct writer *w = data;
    const hc_responses *mask = w->out->mask;
    const char *slash = strrchr(w->out->source, '/');
    fputs("# made by haloconv import from", text);
    print_quoted(text, slash ? slash + 1 : w->out->source);
    if (mask->rate) fprintf(text, ", for %d Hz", mask->rate);
    fputs("\n", text);
    if (mask->client) fputs("/jack/client", text), print_quoted(text, mask->client), fputc('\n', text);
    if (mask->server) fputs("/jack/server", text), print_quoted(text, mask->server), fputc('\n', text);
    fprintf(text, "/convolver/new %d %d %d %d\n", mask->n_in, mask->n_out,
            mask->partition ? mask->partition : PARTITION, mask->n_frames > 0 ? mask->n_frames : 1);
    writer_print_ports(text, "/input/name", "in", mask->in_port, mask->n_in);
    writer_print_ports(text, "/output/name", "out", mask->out_port, mask->n_out);
    for (int i = 0; i < mask->n_routes; i++) {
        const hc_route *route = &mask->routes[i];
        const struct written_response *r = &w->all[w->of_route[i]];
        double gain = (double)route->gain;
        if (r->n_taps == 1) gain *= (double)*r->taps;
        fprintf(text, "/impulse/%s %d %d %.9g %d", r->n_taps == 1 ? "dirac" : "read", route->in + 1, route->out + 1,
                gain, route->delay);
        if (r->n_taps > 1) fprintf(text, " 0 0 %d", r->channel + 1), print_quoted(text, r->file);
        fputc('\n', text);
    }
}

static void keep_node(void *node)
{
    (void)node;
}

bool configuration_write(struct configuration_out *out, char *why, size_t cap)
{
    struct writer w = {.out = out, .rate = out->mask->rate};
    const char *file;
    bool good = files_read_spare(out->read, out->path, why, cap) && text_out_may_replace(out->path, NULL, why, cap) &&
                find_responses(&w, why, cap);
    for (int i = 0; good && (file = hc_responses_file(out->mask, i)); i++) good = find_in_file(&w, file, why, cap);
    good = good && write_files(&w, why, cap) && text_out_marked(out->path, writer_print_text, &w, why, cap);
    for (int i = 0; i < w.n; i++)
        if (w.all[i].is_owner) free((char *)w.all[i].file);
    tdestroy(w.known, keep_node);
    free(w.all);
    free(w.of_route);
    return good;
}

void configuration_write_free(struct configuration_out *out)
{
    for (int i = 0; i < out->n_files; i++) free(out->files[i].path);
    free(out->files);
}
