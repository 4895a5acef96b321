/* convolver - reads the .cfg of Convolver (J. Pavel), which Roon and JRiver read, too:
 *
 *   44100 2 2 3          rate, inputs, outputs, mask of the outputs' speakers (hexadecimal; 0: none)
 *   0 0                  delay of each input, ms
 *   0 1.5                delay of each output, ms
 *   left.wav             a path: file,
 *   0                      its channel, from 0,
 *   0.0 1.5                inputs,
 *   0.0                    outputs
 *   ...                  more paths
 *
 * A word is a channel and its factor: 1.5 is channel 1 times 0.5, 1.0 is channel 1, -1.5 is channel 1 times -0.5.
 */
#include "dsp/base/number.h"
#include "import.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\v\f"

struct convolver_reader {
    struct import *import;
    char *at;
    int line; /* number of the last line that was read */
    double in_delay_s[MASK_MAX_CHANNELS], out_delay_s[MASK_MAX_CHANNELS];
    const struct signal *out[MASK_MAX_CHANNELS];
};

#define REFUSE(r, what, ...) IMPORT_REFUSE((r)->import, (r)->line, what, __VA_ARGS__)

/* ---- lines -------------------------------------------------------------------------------------- */

/* Returns the next line that is neither blank nor comment, without the blanks around it. NULL: the end. */
static char *convolver_line_read(struct convolver_reader *r)
{
    while (*r->at) {
        char *line = r->at + strspn(r->at, BLANKS), *end = r->at + strcspn(r->at, "\n");
        r->at = *end ? end + 1 : end;
        r->line++;
        while (end > line && strchr(BLANKS, end[-1])) end--;
        if (end <= line || *line == '#') continue;
        *end = 0;
        return line;
    }
    return NULL;
}

/* Cuts the first word off a line of numbers, which a comment may follow. NULL: no more words. */
static char *convolver_word_read(char **line)
{
    char *word = *line + strspn(*line, BLANKS);
    size_t length = strcspn(word, BLANKS "#");
    if (length == 0) return NULL;
    *line = word + length + (word[length] && word[length] != '#');
    if (word[length] == '#') *line = word + strlen(word);
    word[length] = 0;
    return word;
}

static bool word_int(const char *word, int min, int max, int *number)
{
    char *end;
    long value = strtol(word, &end, 10);
    *number = (int)value;
    return isdigit((unsigned char)*word) && !*end && value >= min && value <= max;
}

/* ---- head --------------------------------------------------------------------------------------- */

/* Names the outputs by their speakers: each bit of the mask is a speaker, in the order of WAV. */
static void convolver_name_outputs(struct convolver_reader *r, const char *word)
{
    static const char *const speakers[] = {"FL", "FR", "FC", "LFE", "BL",  "BR",  "FLC", "FRC", "BC",
                                           "SL", "SR", "TC", "TFL", "TFC", "TFR", "TBL", "TBC", "TBR"};
    struct configuration *c = r->import->c;
    char *end;
    unsigned long mask = strtoul(word, &end, 16);
    int n = 0;
    if (!isxdigit((unsigned char)*word) || *end) {
        REFUSE(r, NULL, "the mask of speakers \"%.20s\" is not a hexadecimal number; write 0 for none", word);
        return;
    }
    for (unsigned long left = mask; left; left &= left - 1) n++;
    if (mask && (n != c->n_out || mask >> (sizeof speakers / sizeof *speakers)))
        IMPORT_WARN(r->import, r->line, NULL,
                    "the mask %.20s has %d speakers, but the configuration has %d outputs; the outputs get no names",
                    word, n, c->n_out);
    else
        for (int bit = 0, out = 0; mask >> bit; bit++)
            if (mask >> bit & 1) c->out_port[out++].name = speakers[bit];
}

static bool head_read(struct convolver_reader *r)
{
    struct configuration *c = r->import->c;
    char *line = convolver_line_read(r), *words[4] = {NULL};
    for (int i = 0; line && i < 4; i++) words[i] = convolver_word_read(&line);
    if (!words[2] || !word_int(words[0], 1, 10000000, &c->rate) ||
        !word_int(words[1], 1, MASK_MAX_CHANNELS, &c->n_in) || !word_int(words[2], 1, MASK_MAX_CHANNELS, &c->n_out)) {
        c->n_in = c->n_out = 1;
        REFUSE(r, NULL,
               "needs a rate, the numbers of inputs and outputs (1 to %d) and a mask of speakers, as in 44100 2 "
               "2 0",
               MASK_MAX_CHANNELS);
        return false;
    }
    if (words[3]) convolver_name_outputs(r, words[3]);
    if (line && (words[0] = convolver_word_read(&line)))
        REFUSE(r, NULL, "\"%.20s\" is one word too many; remove it", words[0]);
    return true;
}

/* Reads the delays of the inputs, then those of the outputs, on any number of lines. */
static bool delay_lines_read(struct convolver_reader *r)
{
    const struct configuration *c = r->import->c;
    int n = 0, wanted = c->n_in + c->n_out;
    while (n < wanted) {
        char *line = convolver_line_read(r), *word = NULL;
        for (; line && (word = convolver_word_read(&line)) && n < wanted; n++) {
            double ms;
            if (!number_is(word, 0, 1e6, &ms)) {
                REFUSE(r, NULL,
                       "the delay \"%.20s\" is not a number of milliseconds from 0 on; give %d delays of inputs and %d "
                       "of outputs",
                       word, c->n_in, c->n_out);
                return false;
            }
            *(n < c->n_in ? &r->in_delay_s[n] : &r->out_delay_s[n - c->n_in]) = ms / 1000;
        }
        if (line && !word) continue;
        if (n == wanted && !word) break;
        REFUSE(r, NULL, "has %s than %d delays of inputs and %d of outputs; give one for each", line ? "more" : "fewer",
               c->n_in, c->n_out);
        return false;
    }
    return true;
}

/* ---- paths -------------------------------------------------------------------------------------- */

/* Reads "-2.25": channel 2, factor -0.25. A fraction of 0 means 1. */
static bool weight_read(const char *word, int *channel, double *factor)
{
    bool is_negative = *word == '-';
    word += is_negative;
    size_t digits = strspn(word, "0123456789");
    if (digits == 0 || digits > 4 || (word[digits] && word[digits] != '.')) return false;
    *channel = (int)strtol(word, NULL, 10);
    const char *fraction = word + digits;
    if (fraction[strspn(fraction, ".0123456789")] || strchr(fraction + (*fraction == '.'), '.')) return false;
    if (!number_is(fraction, 0, 1, factor) || *factor == 0) *factor = 1;
    if (is_negative) *factor = -*factor;
    return true;
}

/* Finds a file whose path a program on Windows has written. Looks for it in the configuration's folder. */
static const char *convolver_name_of_file(struct convolver_reader *r, char *name)
{
    bool is_full = *name == '\\' || (isalpha((unsigned char)*name) && name[1] == ':');
    const char *whole = is_full ? arena_text(r->import->c->arena, name) : name;
    for (char *at = name; *at; at++)
        if (*at == '\\') *at = '/';
    if (!is_full || !whole) return name;
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name + 2;
    if (!*last) return whole; /* the name of a folder: not a file */
    IMPORT_WARN(r->import, r->line, NULL, "%s is read from the folder of the configuration, as %s", whole, last);
    return last;
}

/* Reads the words of a line of inputs (r->out is not changed) or outputs. from: the signal for the outputs; NULL if
 * is_in. Returns the sum of the inputs. */
static const struct signal *weights_read(struct convolver_reader *r, char *line, bool is_in, const struct signal *from)
{
    struct network *net = &r->import->network;
    const struct configuration *c = r->import->c;
    const struct signal *sum = NULL;
    char *word;
    int channel = 0, n = is_in ? c->n_in : c->n_out;
    double factor = 1;
    for (; (word = convolver_word_read(&line));) {
        if (!weight_read(word, &channel, &factor)) {
            REFUSE(r, NULL,
                   "\"%.20s\" is not a channel with a factor; write 1.5 for half of channel 1, or 1.0 for all of it",
                   word);
            continue;
        }
        if (channel >= n) {
            REFUSE(r, NULL, "%s %d of %d does not exist; count channels from 0", is_in ? "input" : "output", channel,
                   n);
            continue;
        }
        double delay_s = is_in ? r->in_delay_s[channel] : r->out_delay_s[channel];
        const struct signal *part = is_in ? signal_input(net, channel) : from;
        if (factor != 1) part = signal_gain(net, part, factor);
        if (delay_s > 0) part = signal_delay(net, part, delay_s);
        const struct signal **to = is_in ? &sum : &r->out[channel];
        *to = signal_add(net, *to, part);
    }
    return sum;
}

/* Reads the four lines of a path. false: the end. */
static bool convolver_path_read(struct convolver_reader *r)
{
    struct network *net = &r->import->network;
    char *name = convolver_line_read(r);
    if (!name) return false;
    struct excerpt excerpt = {.line = r->line, .gain = 1};
    excerpt.sound = configuration_file(net->c, convolver_name_of_file(r, name));
    char *channel = convolver_line_read(r);
    if (channel && !word_int(channel, 0, MASK_MAX_CHANNELS - 1, &excerpt.channel)) {
        REFUSE(r, NULL, "\"%.20s\" is not a channel of a file; count channels from 0", channel);
        excerpt.channel = 0;
    }
    char *inputs = channel ? convolver_line_read(r) : NULL;
    const struct signal *signal = inputs ? weights_read(r, inputs, true, NULL) : NULL;
    char *outputs = inputs ? convolver_line_read(r) : NULL;
    if (outputs)
        weights_read(r, outputs, false, signal_filter(net, signal, filter_of_file(net, &excerpt)));
    else
        IMPORT_REFUSE(r->import, excerpt.line, NULL,
                      "the path ends early; write its four lines: file, channel, inputs, outputs");
    return outputs != NULL;
}

static void read_convolver(struct import *import)
{
    struct convolver_reader *r = arena_alloc(import->c->arena, 1, sizeof *r);
    if (!r) return;
    r->import = import;
    r->at = import->text;
    if (head_read(r) && delay_lines_read(r)) {
        int n = 0;
        while (!import->c->arena->is_short && convolver_path_read(r)) n++;
        if (n == 0 && !import->c->diagnostics.n_errors) IMPORT_REFUSE(import, 0, NULL, "has no path; add one");
        for (int out = 0; out < import->c->n_out; out++) network_output(&import->network, out, r->out[out]);
    }
}

/* Is this Convolver's format? Yes if the first line has three or four numbers. */
static bool is_convolver(const char *text, size_t bytes)
{
    (void)bytes;
    for (text += strspn(text, BLANKS "\n"); *text == '#'; text += strspn(text, BLANKS "\n"))
        text += strcspn(text, "\n");
    size_t length = strcspn(text, "\n#");
    return length >= 5 && length < 200 && strspn(text, BLANKS "0123456789abcdefABCDEFxX") >= length &&
           strspn(text, "0123456789") >= 4;
}

const struct import_format format_convolver = {
    .name = "Convolver",
    .extensions = ".cfg",
    .is_format = is_convolver,
    .read = read_convolver,
};
