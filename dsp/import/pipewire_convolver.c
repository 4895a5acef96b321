/* pipewire_convolver - the response of a node "convolver" of PipeWire: a file, a list of files, or a computed one. */
#include "dsp/base/number.h"
#include "dsp/signal/hann.h"
#include "pipewire.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INLINE_IR "/ir:"

struct convolver { /* the config of an impulse response */
    struct import *import;
    const struct node *node;
    const struct relaxed *json;
    const char *file;
    double gain;
    int offset, length, channel;
};

static const struct filter *hilbert_response(const struct convolver *v)
{
    int length = (v->length > 0 ? v->length : 64) - v->offset, half = length / 2;
    double *taps = length > 0 && length <= CONFIGURATION_TAPS ? calloc((size_t)length, sizeof *taps) : NULL;
    if (!taps) {
        NODE_REFUSE(v->import, v->node, "the Hilbert transformer has %d frames; give a length above its offset",
                    length);
        return NULL;
    }
    for (int k = 1; k < half; k += 2) {
        taps[half - k] = v->gain * hilbert_tap(k, half);
        taps[half + k] = -taps[half - k];
    }
    const struct filter *filter =
        filter_of_taps(&v->import->network, taps, length, v->node->json->line, v->node->statement);
    free(taps);
    return filter;
}

/* Reads a response in the text, "/ir:RATE,VALUE,VALUE...". */
static const struct filter *inline_response(const struct convolver *v)
{
    const char *text = v->file + strlen(INLINE_IR);
    int n = 0;
    double rate, value,
        *taps = malloc((strlen(text) / 2 + 1) * sizeof *taps); /* each value has a digit and a separator */
    if (!taps) {
        v->import->c->arena->is_short = true;
        return NULL;
    }
    text = number_read(text, -DBL_MAX, DBL_MAX, &rate);
    while (text && *(text += strspn(text, ", ")) && (text = number_read(text, -DBL_MAX, DBL_MAX, &value)))
        taps[n++] = v->gain * value;
    const struct filter *filter = NULL;
    if (!text || n == 0 || rate != v->import->c->rate)
        NODE_REFUSE(v->import, v->node, "\"%.40s\" is not a response for %d Hz; write /ir:%d,VALUE,VALUE ...", v->file,
                    v->import->c->rate, v->import->c->rate);
    else
        filter = filter_of_taps(&v->import->network, taps, n, v->node->json->line, v->node->statement);
    free(taps);
    return filter;
}

/* Reads an excerpt of the file. `length` counts from the start of the file, even if there is an offset. */
static const struct filter *file_response(const struct convolver *v)
{
    struct excerpt excerpt = {.line = v->node->json->line,
                              .command = v->node->statement,
                              .gain = (float)v->gain,
                              .offset = v->offset,
                              .channel = v->channel,
                              .is_in_turn = true};
    if (v->length > 0) excerpt.length = v->length - v->offset;
    if (v->length > 0 && excerpt.length <= 0) {
        NODE_REFUSE(v->import, v->node,
                    "length %d does not exceed offset %d; count the length from the start of the file", v->length,
                    v->offset);
        return NULL;
    }
    excerpt.sound = configuration_file(v->import->c, v->file);
    return filter_of_file(&v->import->network, &excerpt);
}

/* Do two names differ only in one number, which %r can replace? Stores the length of the text before and behind the
 * number. */
static bool rate_differs(const char *a, const char *b, size_t *start, size_t *end)
{
    size_t same = 0, tail = 0, n = strlen(a), m = strlen(b);
    while (a[same] && a[same] == b[same]) same++;
    while (same > 0 && a[same - 1] >= '0' && a[same - 1] <= '9') same--;
    while (tail < n - same && tail < m - same && a[n - 1 - tail] == b[m - 1 - tail]) tail++;
    while (tail > 0 && a[n - tail] >= '0' && a[n - tail] <= '9') tail--;
    *start = same;
    *end = n - tail;
    return n - tail > same && strspn(a + same, "0123456789") == n - tail - same &&
           strspn(b + same, "0123456789") == m - tail - same;
}

/* Reads a list with a file for each rate. The names become a pattern with %r; if they have none, the first is used.
 * NULL: an item is no text; an error was reported. */
static const char *choose_file(const struct convolver *v, const struct relaxed *list)
{
    const struct relaxed *first = list->items;
    size_t start = 0, end = 0;
    bool is_pattern = first && first->next;
    if (!first) return "";
    for (const struct relaxed *item = first; item; item = item->next)
        if (!relaxed_is(v->import, v->node->statement, item, RELAXED_TEXT, list->key)) return NULL;
    for (const struct relaxed *item = first->next; item && is_pattern; item = item->next) {
        size_t item_start, item_end;
        is_pattern = rate_differs(first->text, item->text, &item_start, &item_end) &&
                     (item == first->next || (item_start == start && item_end == end));
        start = item_start;
        end = item_end;
    }
    if (!first->next) return first->text;
    char *name = is_pattern ? arena_alloc(v->import->c->arena, strlen(first->text) + 3, 1) : NULL;
    if (name) {
        snprintf(name, strlen(first->text) + 3, "%.*s%%r%s", (int)start, first->text, first->text + end);
        return name;
    }
    if (v->node->copy == 0)
        IMPORT_WARN(v->import, list->line, v->node->statement,
                    "%.200s is used and resampled, since no file is for this rate; name the files by their rates",
                    first->text);
    return first->text;
}

/* Reads a delay: a whole number is in frames, another in seconds; at most 10 s. */
static double convolver_delay(const struct convolver *v)
{
    const struct relaxed *delay = relaxed_get(v->json, "delay");
    double value = relaxed_number(v->import, v->node->statement, v->json, "delay", 0);
    bool is_frames = delay && !delay->text[strspn(delay->text, "+-0123456789")];
    double seconds = is_frames ? network_seconds(&v->import->network, value) : node_whole_frames(v->import, value, 10);
    double asked = is_frames ? seconds : value;
    if (delay && !(asked >= 0 && asked <= 10))
        IMPORT_WARN(v->import, delay->line, v->node->statement, "delay is %g s; it becomes %d s, as in PipeWire", asked,
                    asked > 0 ? 10 : 0);
    return fmax(fmin(seconds, 10), 0);
}

const struct signal *node_convolve(struct import *import, const struct node *node, const struct relaxed *json,
                                   int channel, const struct signal *in)
{
    struct network *net = &import->network;
    struct convolver v = {.import = import, .node = node, .json = json};
    const struct relaxed *file = relaxed_get(json, "filename");
    if (!in) return NULL;
    v.gain = relaxed_number(import, node->statement, json, "gain", 1);
    v.offset = (int)fmax(relaxed_whole(import, node->statement, json, "offset", 0), 0);
    v.length = relaxed_whole(import, node->statement, json, "length", 0);
    v.channel = (int)fmax(relaxed_whole(import, node->statement, json, "channel", channel), 0);
    v.file = !file                        ? ""
             : file->kind == RELAXED_LIST ? choose_file(&v, file)
                                          : relaxed_text(import, node->statement, json, "filename", NULL);
    if (!v.file) return NULL; /* an error was reported */
    if (!*v.file) {
        NODE_REFUSE(import, node, "has no file; give config = { filename = ... }");
        return NULL;
    }
    in = signal_delay(net, in, convolver_delay(&v));
    if (strncmp(v.file, "/dirac", 6) == 0) return signal_gain(net, in, v.gain);
    if (strncmp(v.file, "/hilbert", 8) == 0) return signal_filter(net, in, hilbert_response(&v));
    if (strncmp(v.file, INLINE_IR, strlen(INLINE_IR)) == 0) return signal_filter(net, in, inline_response(&v));
    return signal_filter(net, in, file_response(&v));
}
