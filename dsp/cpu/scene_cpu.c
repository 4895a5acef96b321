/* scene_cpu - steered sources on the CPU.
 *
 *   head        each source: [block before | block] -> FFT -> FDL. from and to: sum of weight * X * H -> IFFT -> fade
 *   tail level  at an edge: the last `fft` frames of each source -> FFT -> FDL; the sum -> IFFT -> hop + fade frames,
 *               faded in and out, added to a ring that the calls read `delay` frames later (scene_plan.h)
 */
#include "dsp/scene/scene_backend.h"

#include "dsp/engine/backend.h"
#include "fft.h"
#include "memory.h"
#include "simd.h"

#include <stdlib.h>
#include <string.h>

struct bank_cpu {
    int n_entries, n_out, n_levels;
    float *spectra[HC_MOST_STEER_LEVELS];   /* [entry][out][partition][stride], scaled by 1 / fft */
    int n_partitions[HC_MOST_STEER_LEVELS]; /* that this bank's responses fill */
};

struct level_cpu {
    const struct scene_level *plan;
    struct fft *fft;
    size_t stride; /* floats of a spectrum */
    float *fdl;    /* [n_sources][n_partitions][stride]; the newest in slot `newest` */
    int newest;
};

struct scene_state {
    struct scene_plan plan;
    struct scene_shape shape;
    struct level_cpu levels[HC_MOST_STEER_LEVELS];
    float *history; /* [n_sources][history_length]: the last input frames, a ring */
    int history_length;
    float *due; /* [n_out][due_length]: output of the tail levels, a ring; frame f at f % due_length */
    int due_length;
    float *window, *spectrum, *sum, *result; /* scratch */
};

static size_t stride_of(const struct scene_level *level)
{
    return round_up((size_t)level->fft + 2, SIMD_PAD);
}

/* ---- banks ------------------------------------------------------------------------------------------------------- */

static void cpu_bank_free(void *impl)
{
    struct bank_cpu *bank = impl;
    if (!bank) return;
    for (int l = 0; l < bank->n_levels; l++) free(bank->spectra[l]);
    free(bank);
}

static bool bank_level_make(struct bank_cpu *bank, int l, const struct scene_level *level, const hc_bank_data *data)
{
    int n_taps = data->n_taps - level->offset < level->n_taps ? data->n_taps - level->offset : level->n_taps;
    if (n_taps <= 0) return true;
    int n_partitions = (n_taps + level->hop - 1) / level->hop;
    size_t stride = stride_of(level), n_rows = (size_t)data->n_entries * (size_t)data->n_out;
    struct fft *fft = fft_open(level->fft);
    float *window = memory_floats(stride);
    bank->spectra[l] = memory_floats(n_rows * (size_t)n_partitions * stride);
    bool ok = fft && window && bank->spectra[l];
    for (size_t row = 0; ok && row < n_rows; row++) {
        for (int p = 0; p < n_partitions; p++) {
            int from = p * level->hop, n = n_taps - from < level->hop ? n_taps - from : level->hop;
            memset(window, 0, stride * sizeof *window);
            for (int k = 0; k < n; k++) window[k] = data->taps[row][level->offset + from + k] / (float)level->fft;
            fft_forward(fft, window, bank->spectra[l] + (row * (size_t)n_partitions + (size_t)p) * stride);
        }
    }
    bank->n_partitions[l] = n_partitions;
    free(window);
    if (fft) fft_close(fft);
    return ok;
}

static int cpu_bank_make(const struct scene_plan *plan, int device, const hc_bank_data *data, void **impl,
                         uint64_t *bytes, char *why, size_t cap)
{
    (void)device;
    struct bank_cpu *bank = calloc(1, sizeof *bank);
    bool ok = bank != NULL;
    *bytes = 0;
    if (ok) {
        bank->n_entries = data->n_entries;
        bank->n_out = data->n_out;
        bank->n_levels = plan->n_levels;
    }
    for (int l = 0; ok && l < plan->n_levels; l++) {
        ok = bank_level_make(bank, l, &plan->levels[l], data);
        *bytes += 4ull * (uint64_t)data->n_entries * (uint64_t)data->n_out * (uint64_t)bank->n_partitions[l] *
                  stride_of(&plan->levels[l]);
    }
    if (ok) {
        *impl = bank;
        return HC_OK;
    }
    cpu_bank_free(bank);
    return fail(HC_ENOMEM, why, cap, "no memory for a bank of %d entries", data->n_entries);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void cpu_close(void *state)
{
    struct scene_state *s = state;
    if (!s) return;
    for (int l = 0; l < s->plan.n_levels; l++) {
        if (s->levels[l].fft) fft_close(s->levels[l].fft);
        free(s->levels[l].fdl);
    }
    free(s->history);
    free(s->due);
    free(s->window);
    free(s->spectrum);
    free(s->sum);
    free(s->result);
    free(s);
}

static size_t fdl_floats(const struct scene_level *level, const struct scene_shape *shape)
{
    return (size_t)shape->n_sources * (size_t)level->n_partitions * stride_of(level);
}

static double cpu_memory(const struct scene_plan *plan, const struct scene_shape *shape)
{
    double floats = 0;
    for (int l = 0; l < plan->n_levels; l++) floats += (double)fdl_floats(&plan->levels[l], shape);
    return 4 * floats;
}

static int cpu_open(const struct scene_plan *plan, const struct scene_shape *shape, int device, void **state, char *why,
                    size_t cap)
{
    (void)device;
    struct scene_state *s = calloc(1, sizeof *s);
    bool ok = s != NULL;
    size_t most = 0;
    if (ok) {
        s->plan = *plan;
        s->shape = *shape;
        for (int l = 0; l < plan->n_levels && ok; l++) {
            const struct scene_level *level = &s->plan.levels[l];
            s->levels[l] = (struct level_cpu){.plan = level,
                                              .fft = fft_open(level->fft),
                                              .stride = stride_of(level),
                                              .fdl = memory_floats(fdl_floats(level, shape))};
            ok = s->levels[l].fft && s->levels[l].fdl;
            if (stride_of(level) > most) most = stride_of(level);
            if (level->fft > s->history_length) s->history_length = level->fft;
            int due = l > 0 ? level->delay + 2 * level->hop + level->fade + plan->block : 0;
            if (due > s->due_length) s->due_length = due;
        }
    }
    if (ok) {
        s->history = memory_floats((size_t)shape->n_sources * (size_t)s->history_length);
        s->due = memory_floats((size_t)shape->n_out * (size_t)s->due_length);
        s->window = memory_floats(most);
        s->spectrum = memory_floats(most);
        s->sum = memory_floats(most);
        s->result = memory_floats(most);
        ok = s->history && s->due && s->window && s->spectrum && s->sum && s->result;
    }
    if (ok) {
        *state = s;
        return HC_OK;
    }
    cpu_close(s);
    return fail(HC_ENOMEM, why, cap, "no memory for %d sources", shape->n_sources);
}

static int cpu_reset(void *state, char *why, size_t cap)
{
    struct scene_state *s = state;
    (void)why, (void)cap;
    for (int l = 0; l < s->plan.n_levels; l++) {
        memset(s->levels[l].fdl, 0, fdl_floats(&s->plan.levels[l], &s->shape) * sizeof(float));
        s->levels[l].newest = 0;
    }
    memset(s->history, 0, (size_t)s->shape.n_sources * (size_t)s->history_length * sizeof(float));
    memset(s->due, 0, (size_t)s->shape.n_out * (size_t)s->due_length * sizeof(float));
    return HC_OK;
}

/* ---- play -------------------------------------------------------------------------------------------------------- */

/* Copies the `n` frames of a source before frame `end`. */
static void history_read(const struct scene_state *s, int source, int64_t end, int n, float *frames)
{
    const float *ring = s->history + (size_t)source * (size_t)s->history_length;
    for (int i = 0; i < n; i++) {
        int64_t at = (end - n + i) % s->history_length;
        frames[i] = ring[at < 0 ? at + s->history_length : at];
    }
}

static void history_write(struct scene_state *s, const struct scene_call *call)
{
    for (int i = 0; i < s->shape.n_sources; i++)
        for (int k = 0; k < call->n; k++)
            s->history[(size_t)i * (size_t)s->history_length + (size_t)((call->frame + k) % s->history_length)] =
                call->in[i][k];
}

static float *fdl_slot(const struct scene_state *s, int l, int source, int slot)
{
    const struct level_cpu *level = &s->levels[l];
    return level->fdl + ((size_t)source * (size_t)level->plan->n_partitions + (size_t)slot) * level->stride;
}

/* sum = the spectrum of output `out` of a mix. Returns false if it is silent. */
static bool mix_sum(const struct scene_state *s, int l, const struct scene_mix *mix, int out)
{
    const struct level_cpu *level = &s->levels[l];
    int n_slots = level->plan->n_partitions;
    bool any = false;
    memset(s->sum, 0, level->stride * sizeof(float));
    for (int i = 0; i < mix->n; i++) {
        const struct scene_term *term = &mix->terms[i];
        const struct bank_cpu *bank = term->bank;
        if (out >= bank->n_out || !bank->spectra[l]) continue;
        any = true;
        const float *h = bank->spectra[l] + ((size_t)term->entry * (size_t)bank->n_out + (size_t)out) *
                                                (size_t)bank->n_partitions[l] * level->stride;
        for (int p = 0; p < bank->n_partitions[l]; p++, h += level->stride) {
            const float *x = fdl_slot(s, l, term->source, (level->newest - p + n_slots) % n_slots);
            for (size_t b = 0; b < level->stride; b += 2) {
                s->sum[b] += term->weight * (x[b] * h[b] - x[b + 1] * h[b + 1]);
                s->sum[b + 1] += term->weight * (x[b] * h[b + 1] + x[b + 1] * h[b]);
            }
        }
    }
    return any;
}

static float gain_at(int i, int fade)
{
    return i + 1 >= fade ? 1 : (float)(i + 1) / (float)fade;
}

static void head_play(struct scene_state *s, const struct scene_call *call)
{
    struct level_cpu *head = &s->levels[0];
    int block = s->plan.block, pos = (int)(call->frame % block), n_slots = head->plan->n_partitions;
    if (pos == 0) head->newest = (head->newest + 1) % n_slots;
    for (int i = 0; i < s->shape.n_sources; i++) {
        int64_t end = call->frame + call->n;
        memset(s->window, 0, head->stride * sizeof(float));
        history_read(s, i, end, block + pos + call->n < s->history_length ? block + pos + call->n : s->history_length,
                     s->window);
        fft_forward(head->fft, s->window, fdl_slot(s, 0, i, head->newest));
    }
    for (int out = 0; out < call->n_heard; out++) {
        for (int side = call->is_still; side < 2; side++) {
            if (!mix_sum(s, 0, side ? &call->to : &call->from, out)) continue;
            fft_inverse(head->fft, s->sum, s->result);
            for (int k = 0; k < call->n; k++) {
                float g = call->is_still ? 1 : gain_at(pos + k, head->plan->fade);
                call->out[out][k] += (side ? g : 1 - g) * s->result[block + pos + k];
            }
        }
    }
}

static void tail_take(struct scene_state *s, int l, const struct scene_call *call)
{
    struct level_cpu *tail = &s->levels[l];
    const struct scene_level *plan = tail->plan;
    tail->newest = (tail->newest + 1) % plan->n_partitions;
    for (int i = 0; i < s->shape.n_sources; i++) {
        history_read(s, i, call->frame, plan->fft, s->window);
        fft_forward(tail->fft, s->window, fdl_slot(s, l, i, tail->newest));
    }
    int n = plan->hop + plan->fade;
    for (int out = 0; out < call->n_heard; out++) {
        if (!mix_sum(s, l, call->tail[l], out)) continue;
        fft_inverse(tail->fft, s->sum, s->result);
        for (int k = 0; k < n; k++) {
            float g = k < plan->fade  ? gain_at(k, plan->fade)
                      : k < plan->hop ? 1
                                      : 1 - gain_at(k - plan->hop, plan->fade);
            s->due[(size_t)out * (size_t)s->due_length + (size_t)((call->frame + plan->delay + k) % s->due_length)] +=
                g * s->result[plan->fft - n + k];
        }
    }
}

static void due_read(struct scene_state *s, const struct scene_call *call)
{
    for (int out = 0; out < s->shape.n_out; out++) {
        for (int k = 0; k < call->n; k++) {
            float *due = &s->due[(size_t)out * (size_t)s->due_length + (size_t)((call->frame + k) % s->due_length)];
            if (out < call->n_heard) call->out[out][k] += *due;
            *due = 0;
        }
    }
}

static int cpu_play(void *state, const struct scene_call *call, char *why, size_t cap)
{
    struct scene_state *s = state;
    (void)why, (void)cap;
    for (int l = 1; l < s->plan.n_levels; l++)
        if (call->tail[l]) tail_take(s, l, call);
    history_write(s, call);
    head_play(s, call);
    if (s->due_length > 0) due_read(s, call);
    return HC_OK;
}

const struct scene_backend scene_cpu = {
    .open = cpu_open,
    .close = cpu_close,
    .bank_make = cpu_bank_make,
    .bank_free = cpu_bank_free,
    .memory = cpu_memory,
    .play = cpu_play,
    .reset = cpu_reset,
};
