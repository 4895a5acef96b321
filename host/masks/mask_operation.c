/* haloconv mask - reads masks, has an operation make one of them, and writes it. */
#include "mask_operation.h"

#include "host/commands.h"
#include "host/files/mask_diagnostics.h"
#include "host/files/spool.h"
#include "host/json_print.h"
#include "host/mask_argument.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FRAMES = 1 << 28, MAX_SAMPLES = 1 << 30, USUAL_RATE = 48000 };

static const struct mask_operation *const operations[] = {&mask_convolve, &mask_add,   &mask_blend, &mask_channels,
                                                          &mask_trim,     &mask_fade,  &mask_align, &mask_reverse,
                                                          &mask_stretch,  &mask_split, &mask_decay, &mask_normalise};
enum { N_OPERATIONS = sizeof operations / sizeof *operations };

const struct option_row mask_options[] = {
    {"rate", 0, "HZ", "Rate of the result; for a text, its rate [that of the first mask]", option_int,
     OPTION_TO(struct mask_settings, rate), .min = 1, .max = 100000000},
    MASK_WRITE_OPTIONS(struct mask_settings),
    {0}};

/* ---- what operations use ------------------------------------------------------------------------ */

bool mask_job_no_memory(struct mask_job *job)
{
    return MASK_REFUSE(job, "%s: no memory; use shorter masks", job->settings->names.list[0]);
}

bool mask_job_make(struct mask_job *job, int n_channels, double n_frames)
{
    struct mask_out *out = &job->out;
    if (!(n_frames <= MAX_FRAMES && n_frames * n_channels <= MAX_SAMPLES))
        return MASK_REFUSE(
            job, "%s: would have %.0f frames of %d channel%s, but a mask has at most %d; trim the masks first",
            job->settings->output, n_frames, n_channels, message_s(n_channels), MAX_FRAMES);
    out->n_channels = n_channels;
    out->n_frames = (int)n_frames;
    out->h = job->h = calloc((size_t)n_channels * (size_t)out->n_frames, sizeof *out->h);
    return job->h || mask_job_no_memory(job);
}

bool mask_job_copy(struct mask_job *job, double n_frames, int first)
{
    const hc_responses *mask = &job->masks[0];
    if (!mask_job_make(job, mask->n_channels, n_frames)) return false;
    int from = first < 0 ? -first : 0, to = job->out.n_frames - first;
    if (to > mask->n_frames) to = mask->n_frames;
    for (int ch = 0; ch < mask->n_channels; ch++)
        for (int i = from; i < to; i++) mask_job_result(job, ch)[i + first] = (double)mask->channel[ch][i];
    return true;
}

int mask_job_channels(struct mask_job *job)
{
    int max = 1;
    for (int i = 0; i < job->n_masks; i++) {
        int n = job->masks[i].n_channels;
        if (n > 1 && max > 1 && n != max)
            return MASK_REFUSE(job,
                               "%s: has %d channels, but the masks before it have %d; use a mask of 1 or %d channels, "
                               "see `haloconv mask channels`",
                               job->settings->names.list[i], n, max, max);
        if (n > max) max = n;
    }
    return max;
}

int mask_job_longest(const struct mask_job *job)
{
    int max = 0;
    for (int i = 0; i < job->n_masks; i++)
        if (job->masks[i].n_frames > max) max = job->masks[i].n_frames;
    return max;
}

const float *mask_job_channel(const struct mask_job *job, int mask, int ch)
{
    const hc_responses *from = &job->masks[mask];
    return from->channel[from->n_channels == 1 ? 0 : ch];
}

double *mask_job_result(const struct mask_job *job, int ch)
{
    return job->h + (size_t)ch * (size_t)job->out.n_frames;
}

void mask_job_note(struct mask_job *job, const char *name, const char *text, double value)
{
    job->figures[job->n_figures].name = name;
    job->figures[job->n_figures].text = text;
    job->figures[job->n_figures++].value = value;
}

double mask_peak(const hc_responses *mask, int ch)
{
    float peak = 0;
    for (int i = 0; i < mask->n_frames; i++) peak = fmaxf(peak, fabsf(mask->channel[ch][i]));
    return (double)peak;
}

double mask_energy(const hc_responses *mask, int ch)
{
    double energy = 0;
    for (int i = 0; i < mask->n_frames; i++) energy += (double)mask->channel[ch][i] * (double)mask->channel[ch][i];
    return energy;
}

int mask_job_frames(const struct mask_job *job, double ms)
{
    return (int)fmin(rint(ms * 1e-3 * job->out.rate), 1 << 30); /* a rate may be up to 2^31 */
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* Copies standard input to a temporary file. Returns its path, and its descriptor in *fd. */
static bool keep_input(struct mask_job *job, char *path, size_t cap, int *fd)
{
    if (isatty(STDIN_FILENO)) return MASK_REFUSE(job, "standard input is a terminal; send a mask to it");
    *fd = spool_open(job->why, sizeof job->why);
    if (*fd < 0) return false;
    int error = spool_copy(STDIN_FILENO, *fd);
    if (error)
        return MASK_REFUSE(job, "-: cannot be kept in a temporary file: %s; set TMPDIR to a folder with free space",
                           strerror(error));
    snprintf(path, cap, "/proc/self/fd/%d", *fd);
    return true;
}

/* may_wait: a text without a rate stays unread, as a mask below may have one. */
static bool load_from(struct mask_job *job, hc_responses *mask, const char *name, const char *path, bool may_wait)
{
    int error = hc_responses_load(path, 0, job->out.rate, 0, mask, job->why, sizeof job->why);
    size_t length = strlen(path);
    if (!error && may_wait && !job->out.rate && !mask->file_rate && mask->n_channels > 0) {
        hc_responses_free(mask);
        return true;
    }
    if (error && path != name && strncmp(job->why, path, length) == 0) { /* name the input, not the temporary file */
        char why[MESSAGE_CAP];
        snprintf(why, sizeof why, "%s", job->why + length);
        MASK_REFUSE(job, "%s%s", name, why);
    }
    if (error) mask_argument_explain(path, job->why, sizeof job->why);
    if (error) return false;
    mask_diagnostics_print(mask, name);
    if (mask->n_channels == 0)
        return MASK_REFUSE(job, "%s: is a configuration; give a sound file that `haloconv import` makes of it", name);
    if (mask->file_rate && mask->rate != mask->file_rate)
        message_note("%s: resampled from %d to %d Hz", name, mask->file_rate, mask->rate);
    if (!job->out.rate) job->out.rate = mask->rate;
    return true;
}

static bool operation_load(struct mask_job *job, int i, bool may_wait)
{
    const char *name = job->settings->names.list[i];
    char kept[32];
    int fd = -1;
    bool is_input = strcmp(name, "-") == 0;
    bool good = (!is_input || keep_input(job, kept, sizeof kept, &fd)) &&
                load_from(job, &job->masks[i], name, is_input ? kept : name, may_wait && !is_input);
    if (fd >= 0) close(fd);
    return good;
}

static bool load_all(struct mask_job *job)
{
    const struct option_names *names = &job->settings->names;
    job->out.rate = job->settings->rate;
    job->n_masks = names->n;
    for (int i = 0; i < 2 * names->n; i++)
        if (!job->masks[i % names->n].n_channels && !operation_load(job, i % names->n, i < names->n)) return false;
    if (job->out.rate) return true;
    job->out.rate = USUAL_RATE;
    return !message_note("%s: has no rate, and is read at %d Hz; give --rate to change that", names->list[0],
                         USUAL_RATE);
}

/* ---- writing ------------------------------------------------------------------------------------ */

static bool is_writable(struct mask_job *job)
{
    size_t n = (size_t)job->out.n_channels * (size_t)job->out.n_frames, i = 0;
    while (i < n && fabs(job->h[i]) <= (double)FLT_MAX) i++;
    return i == n || MASK_REFUSE(job, "%s: would exceed the range of a float; lower the level of the masks",
                                 job->settings->output);
}

static int operation_report(const struct mask_job *job)
{
    const struct mask_out *out = &job->out;
    char figures[256] = "";
    for (int i = 0; i < job->n_figures; i++) {
        size_t used = strlen(figures);
        used += (size_t)snprintf(figures + used, sizeof figures - used, "%s", i ? ", " : "; ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        double value = job->figures[i].value; /* a gain has two decimals: not -0.00 */
        snprintf(figures + used, sizeof figures - used, job->figures[i].text, value > -0.005 && value < 0 ? 0 : value);
#pragma GCC diagnostic pop
    }
    message_note("%s: %d channel%s, %d frame%s (%.1f ms) at %d Hz%s", out->path, out->n_channels,
                 message_s(out->n_channels), out->n_frames, message_s(out->n_frames), 1e3 * out->n_frames / out->rate,
                 out->rate, figures);
    if (!job->settings->json) return 0;
    json_t *all = json_pack("{s:s, s:i, s:i, s:i}", "operation", job->operation->line.command + strlen("mask "), "rate",
                            out->rate, "channels", out->n_channels, "frames", out->n_frames);
    for (int i = 0; all && i < job->n_figures; i++)
        json_object_set_new(all, job->figures[i].name, json_number(job->figures[i].value));
    return json_print(all, 12, out->path);
}

/* ---- the command -------------------------------------------------------------------------------- */

static int operation_check(const struct mask_operation *operation, const struct mask_settings *s)
{
    const char *command = operation->line.command;
    int n_inputs = 0;
    for (int i = 0; i < s->names.n; i++) n_inputs += strcmp(s->names.list[i], "-") == 0;
    if (n_inputs > 1) return message_usage(command, "only one MASK can be -, standard input");
    int status = operation->check ? operation->check(s) : -1;
    return status >= 0 ? status : mask_write_check(command, s->output, s->format, s->json);
}

static int operation_run(const struct mask_operation *operation, int argc, char **argv)
{
    struct mask_settings settings = {.fade_ms = 2, .level = 1, .mix = NAN, .below_db = NAN, .at_ms = NAN};
    struct mask_job *job = NULL;
    int status = option_parse(&operation->line, argc, argv, &settings);
    if (status < 0) status = operation_check(operation, &settings);
    if (status >= 0) return status;
    job = calloc(1, sizeof *job);
    if (!job) return message_error("%s: no memory; free some memory", settings.output);
    job->operation = operation;
    job->settings = &settings;
    job->out.path = settings.output;
    job->out.format = settings.format;
    bool good =
        load_all(job) && operation->apply(job) && is_writable(job) && mask_write(&job->out, job->why, sizeof job->why);
    status = good ? operation_report(job) : message_error("%s", job->why);
    for (int i = 0; i < job->n_masks; i++) hc_responses_free(&job->masks[i]);
    free(job->h);
    free(job);
    return status;
}

static int print_operations(void)
{
    printf("Usage: haloconv mask OPERATION MASK... -o MASK\n"
           "Makes a mask of one or several.\n\n");
    for (int i = 0; i < N_OPERATIONS; i++)
        printf("  %-12s %s\n", operations[i]->line.command + strlen("mask "), operations[i]->summary);
    printf("\nA MASK is a sound file or a text of coefficients; - is standard input and output, so operations can be\n"
           "piped. Masks are resampled to the rate of the first one. The output may be one of the inputs.\n\n"
           "  haloconv mask trim hall.wav -o - | haloconv mask fade --out 50 - -o short.wav\n\n"
           "  -h, --help  Print this text; haloconv mask OPERATION --help has the options of an operation\n"
           "  -q, --quiet Print errors only: no progress, warnings or summary\n");
    return 0;
}

int mask_command(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    for (int i = 0; i < N_OPERATIONS; i++)
        if (strcmp(name, operations[i]->line.command + strlen("mask ")) == 0)
            return operation_run(operations[i], argc - 1, argv + 1);
    if (strcmp(name, "--_completion") == 0) {
        for (int i = 0; i < N_OPERATIONS; i++) operation_run(operations[i], 2, argv);
        return 0;
    }
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return print_operations();
    return message_usage("mask", "%s%sneeds an operation, such as trim", name, *name ? "is not an operation; " : "");
}
