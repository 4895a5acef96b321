#include "moving.h"
#include "dsp/engine/engine.h"

#include "dsp/signal/transform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hc_config moving_config(int block, int bank_taps, int n_sources, int n_out)
{
    hc_config c;
    hc_config_init(&c);
    c.block = block;
    c.max_taps = 1;
    c.n_in = c.n_sources = n_sources;
    c.n_out = n_out;
    c.bank_taps = bank_taps;
    return c;
}

static float **rows_make(int n, int cap)
{
    float **rows = must_alloc((size_t)n, sizeof *rows);
    for (int ch = 0; ch < n; ch++) rows[ch] = must_alloc((size_t)cap, sizeof **rows);
    return rows;
}

static void rows_free(float **rows, int n)
{
    for (int ch = 0; ch < n; ch++) free(rows[ch]);
    free(rows);
}

void moving_open(struct moving *m, const hc_config *config, const char *backend, int cap, uint64_t seed)
{
    char why[256] = "";
    *m = (struct moving){.config = *config, .random = random_seeded(seed), .seed = seed, .cap = cap};
    m->config.backend = backend;
    m->config.wait_us = HC_WAIT_FOREVER;
    int code = hc_open(&m->config, &m->engine, why, sizeof why);
    check(code == HC_OK, "hc_open(%s, block %d, %d sources, %d taps): %d, %s", backend, config->block,
          config->n_sources, config->bank_taps, code, why);
    engine_wait_set(m->engine, HC_WAIT_FOREVER); /* for threads of the CPU too */
    m->info.size = sizeof m->info;
    check(hc_get_info(m->engine, &m->info) == HC_OK, "hc_get_info");
    m->in = rows_make(config->n_in, cap);
    m->out = rows_make(config->n_out, cap);
    for (int ch = 0; ch < config->n_in; ch++)
        for (int i = 0; i < cap; i++) m->in[ch][i] = random_sample(&m->random);
}

void moving_close(struct moving *m)
{
    hc_close(m->engine);
    rows_free(m->in, m->config.n_in);
    rows_free(m->out, m->config.n_out);
    free(m->requests);
}

/* ---- banks ------------------------------------------------------------------------------------------------------- */

void moving_taps(struct moving_bank *bank, int n_entries, int n_out, int n_taps, uint64_t seed)
{
    struct random r = random_seeded(seed);
    size_t n = (size_t)n_entries * (size_t)n_out;
    *bank = (struct moving_bank){.n_entries = n_entries, .n_out = n_out, .n_taps = n_taps};
    bank->taps = must_alloc(n, sizeof *bank->taps);
    bank->memory = must_alloc(n * (size_t)n_taps, sizeof *bank->memory);
    for (size_t i = 0; i < n; i++) {
        bank->taps[i] = bank->memory + i * (size_t)n_taps;
        for (int k = 0; k < n_taps; k++)
            bank->memory[i * (size_t)n_taps + (size_t)k] = random_sample(&r) * exp2f(-6 * (float)k / (float)n_taps);
    }
}

hc_bank_data moving_data(const struct moving_bank *bank)
{
    return (hc_bank_data){.size = sizeof(hc_bank_data),
                          .n_entries = bank->n_entries,
                          .n_out = bank->n_out,
                          .n_taps = bank->n_taps,
                          .taps = bank->taps};
}

void moving_bank(struct moving *m, struct moving_bank *bank, int n_entries, int n_out, int n_taps, uint64_t seed)
{
    char why[256] = "";
    moving_taps(bank, n_entries, n_out, n_taps, seed);
    hc_bank_data data = moving_data(bank);
    int code = hc_bank_make(m->engine, &data, &bank->bank, why, sizeof why);
    check(code == HC_OK, "hc_bank_make: %d, %s", code, why);
}

void moving_bank_free(struct moving_bank *bank)
{
    hc_bank_free(bank->bank);
    free(bank->taps);
    free(bank->memory);
}

/* ---- requests and calls ------------------------------------------------------------------------------------------ */

void moving_steer(struct moving *m, int source, const struct moving_bank *bank, const int *entry, const float *weight,
                  int n)
{
    if (m->n_requests == m->most_requests) {
        m->most_requests = 2 * m->most_requests + 64;
        m->requests = realloc(m->requests, (size_t)m->most_requests * sizeof *m->requests);
        if (!m->requests) exit(1);
    }
    struct moving_request *request = &m->requests[m->n_requests++];
    *request = (struct moving_request){.at = m->n_frames, .source = source, .n = n, .bank = bank};
    for (int i = 0; i < n; i++) {
        request->entry[i] = entry[i];
        request->weight[i] = weight ? weight[i] : 1;
    }
    int code = hc_steer(m->engine, source, n ? bank->bank : NULL, entry, weight, n);
    check(code == HC_OK, "hc_steer(source %d, %d entries): %d", source, n, code);
}

void moving_steer_one(struct moving *m, int source, const struct moving_bank *bank, int entry)
{
    moving_steer(m, source, bank, &entry, NULL, 1);
}

void moving_steer_any(struct moving *m, int source, const struct moving_bank *bank, int most)
{
    int entry[HC_MAX_MIX], n = random_int(&m->random, 1, most);
    float weight[HC_MAX_MIX];
    for (int i = 0; i < n; i++) {
        entry[i] = random_int(&m->random, 0, bank->n_entries - 1);
        weight[i] = random_sample(&m->random);
    }
    moving_steer(m, source, bank, entry, weight, n);
}

void moving_steer_all(struct moving *m, const struct moving_bank *bank, int most)
{
    for (int i = 0; i < m->config.n_sources; i++) moving_steer_any(m, i, bank, most);
}

void moving_play(struct moving *m, int n)
{
    const float *in[64];
    float *out[64];
    check(m->config.n_in <= 64 && m->config.n_out <= 64, "too many channels for this stage");
    check(m->n_frames < m->cap, "the test plays beyond its input of %d frames", m->cap);
    if (n > m->cap - m->n_frames) n = m->cap - m->n_frames;
    for (int ch = 0; ch < m->config.n_in; ch++) in[ch] = m->in[ch] + m->n_frames;
    for (int ch = 0; ch < m->config.n_out; ch++) out[ch] = m->out[ch] + m->n_frames;
    int code = hc_process(m->engine, in, out, n);
    check(code == HC_OK, "hc_process of %d frames at frame %d: %d", n, m->n_frames, code);
    m->n_frames += n;
}

void moving_play_to(struct moving *m, int end, int n)
{
    while (m->n_frames < end) moving_play(m, n < end - m->n_frames ? n : end - m->n_frames);
}

void moving_reset(struct moving *m)
{
    moving_check(m);
    hc_reset(m->engine);
    m->n_frames = 0;
    for (int i = 0; i < m->n_requests; i++) m->requests[i].at = 0; /* the last one of each source wins */
}

/* ---- the definition ---------------------------------------------------------------------------------------------- */

void moving_convolve(const float *x, int n, const float *h, int offset, int n_taps, double *y)
{
    struct transform transform;
    size_t size = transform_size((size_t)(n + offset + n_taps));
    check(transform_open(&transform, size), "no memory for a transform");
    double complex *a = must_alloc(size / 2 + 1, sizeof *a), *b = must_alloc(size / 2 + 1, sizeof *b);
    transform_response_float(&transform, x, (size_t)n, a);
    double *real = (double *)b;
    for (int k = 0; k < n_taps; k++) real[offset + k] = (double)h[k];
    transform_forward(&transform, b);
    for (size_t i = 0; i <= size / 2; i++) a[i] *= b[i];
    transform_inverse(&transform, a);
    memcpy(y, a, (size_t)n * sizeof *y);
    free(a);
    free(b);
    transform_close(&transform);
}

struct voice { /* an entry that sounds, or did once: its gain over time */
    const struct moving_bank *bank;
    int entry;
    bool sounds;
    double weight, target;
    double *gain; /* [n_frames] */
};

struct voices {
    struct voice *list;
    int n;
};

static struct voice *voice_of(struct voices *voices, const struct moving_bank *bank, int entry, int n_frames)
{
    for (int i = 0; i < voices->n; i++)
        if (voices->list[i].bank == bank && voices->list[i].entry == entry) return &voices->list[i];
    voices->list = realloc(voices->list, (size_t)(voices->n + 1) * sizeof *voices->list);
    if (!voices->list) exit(1);
    struct voice *voice = &voices->list[voices->n++];
    *voice = (struct voice){.bank = bank, .entry = entry};
    voice->gain = must_alloc((size_t)n_frames, sizeof *voice->gain);
    return voice;
}

/* Makes a request the target. Returns false if too many entries would sound. *changed: was the target another one? */
static bool aim(struct voices *voices, const struct moving_request *request, bool at_once, int n_frames, bool *changed)
{
    int n_sounding = 0;
    *changed = at_once;
    for (int i = 0; i < voices->n; i++) {
        if (at_once) voices->list[i].sounds = false, voices->list[i].weight = 0;
        n_sounding += voices->list[i].sounds;
    }
    double sums[HC_MAX_MIX] = {0};
    for (int i = 0; i < request->n; i++) {
        bool first = true;
        for (int k = 0; k < i; k++) first = first && request->entry[k] != request->entry[i];
        for (int k = 0; k < request->n && first; k++)
            if (request->entry[k] == request->entry[i]) sums[i] += (double)request->weight[k];
        if (first) n_sounding += !voice_of(voices, request->bank, request->entry[i], n_frames)->sounds;
    }
    if (n_sounding > HC_MAX_SOUNDING) return false;
    for (int i = 0; i < voices->n; i++) {
        struct voice *voice = &voices->list[i];
        double target = 0;
        for (int k = 0; k < request->n; k++)
            if (sums[k] != 0 && voice->bank == request->bank && voice->entry == request->entry[k]) target = sums[k];
        *changed = *changed || target != voice->target;
        voice->target = target;
        for (int k = 0; k < request->n; k++)
            if (voice->bank == request->bank && voice->entry == request->entry[k]) voice->sounds = true;
    }
    return true;
}

/* The gains of all entries of a source in a level. */
static struct voices voices_make(const struct moving *m, const hc_steer_level *level, int source)
{
    struct voices voices = {0};
    int steer_fade = m->config.steer_fade ? m->config.steer_fade : m->config.block;
    int n_hops = (steer_fade + level->hop - 1) / level->hop, left = 0, taken = -1, last = -1, next = 0;
    for (int t = 0; t < m->n_frames; t += level->hop) {
        for (; next < m->n_requests && m->requests[next].at <= t; next++)
            if (m->requests[next].source == source) last = next;
        bool changed;
        if (last != taken && aim(&voices, &m->requests[last], t == 0, m->n_frames, &changed)) {
            taken = last;
            if (changed) left = t == 0 ? 1 : n_hops;
        }
        for (int i = 0; i < voices.n; i++) {
            struct voice *voice = &voices.list[i];
            double before = voice->weight;
            if (left > 0) voice->weight += (voice->target - voice->weight) / left;
            if (left == 1) voice->weight = voice->target;
            if (left <= 1) voice->sounds = voice->weight != 0;
            if (t == 0) before = voice->weight;
            for (int k = 0; k < level->hop && t + level->delay + k < m->n_frames; k++) {
                double g = k + 1 >= level->fade ? 1 : (double)(k + 1) / level->fade;
                voice->gain[t + level->delay + k] = (1 - g) * before + g * voice->weight;
            }
        }
        if (left > 0) left--;
    }
    return voices;
}

static bool is_silent(const double *gain, int n)
{
    for (int i = 0; i < n; i++)
        if (gain[i] != 0) return false;
    return true;
}

double *moving_wants(const struct moving *m)
{
    int n = m->n_frames;
    double *wants = must_alloc((size_t)m->config.n_out * (size_t)n, sizeof *wants);
    double *y = must_alloc((size_t)n, sizeof *y);
    for (int l = 0; l < m->info.n_steer_levels; l++) {
        const hc_steer_level *level = &m->info.steer_levels[l];
        for (int s = 0; s < m->config.n_sources; s++) {
            struct voices voices = voices_make(m, level, s);
            for (int v = 0; v < voices.n; v++) {
                const struct voice *voice = &voices.list[v];
                const struct moving_bank *bank = voice->bank;
                int n_taps = bank->n_taps - level->offset;
                if (n_taps > level->n_taps) n_taps = level->n_taps;
                for (int o = 0; o < bank->n_out && n_taps > 0 && !is_silent(voice->gain, n); o++) {
                    const float *h = bank->taps[voice->entry * bank->n_out + o] + level->offset;
                    moving_convolve(m->in[s], n, h, level->offset, n_taps, y);
                    for (int i = 0; i < n; i++) wants[(size_t)o * (size_t)n + (size_t)i] += voice->gain[i] * y[i];
                }
                free(voices.list[v].gain);
            }
            free(voices.list);
        }
    }
    free(y);
    return wants;
}

void moving_check(const struct moving *m)
{
    double *wants = moving_wants(m), peak = 0, worst = 0;
    size_t n = (size_t)m->n_frames, total = n * (size_t)m->config.n_out;
    for (size_t i = 0; i < total; i++) peak = fmax(peak, fabs(wants[i]));
    for (size_t i = 0; i < total; i++) {
        double got = (double)m->out[i / n][i % n], error = fabs(got - wants[i]);
        check(error <= PEAK_SHARE * peak,
              "%s, block %d, fade %d, %d Hz, seed %llu: output %zu, frame %zu (of %zu): got %.9g, want %.9g, peak %g",
              m->config.backend, m->config.block, m->config.steer_fade, m->config.rate, (unsigned long long)m->seed,
              i / n, i % n, n, got, wants[i], peak);
        worst = fmax(worst, error);
    }
    if (getenv("HC_TEST_VERBOSE") && peak > 0)
        printf("    %d frames within %.1f dB of the peak\n", m->n_frames, 20 * log10(worst / peak + 1e-30));
    free(wants);
}
