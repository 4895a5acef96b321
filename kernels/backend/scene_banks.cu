/* scene_banks - banks of responses in the memory of a device: the spectra of all partitions of all levels.
 *
 *   host taps -- pack --> pinned half 0, 1 -- copy engine --> taps [rows][pitch] -- responses --> h of each level
 *
 * A bank is made on a separate stream with the lowest priority, in parallel with audio. The packing of one half runs
 * beside the copy and the transforms of the other.
 */
#include "scene_gpu.h"

#include "cuda_error.h"
#include "device_memory.h"
#include "fft_factors.h"
#include "partition.h"
#include "pinned_memory.h"
#include "response_spectra.h"

#include <stdlib.h>
#include <string.h>

static const size_t HALF_BYTES = 8 << 20;

int scene_log2_P(const struct scene_plan *plan, int level, struct reason *why)
{
    const struct scene_level *l = &plan->levels[level];
    const int frames = level ? l->hop * 2 + l->fade : 2 * l->hop; /* frames of a transform */
    int log2_P = log2_of(FFT_MIN);
    while (2 << log2_P < frames) log2_P++;
    if (1 << log2_P > FFT_MAX)
        return fail(
            HC_EUNSUPPORTED, why,
            "cuda: sources in blocks of %d frames at %d Hz need transforms of %d frames, more than the limit %d; use "
            "blocks of %d frames or fewer, or the CPU",
            plan->block, plan->rate, 2 << log2_P, 2 * FFT_MAX, FFT_MAX);
    return log2_P;
}

static int parts_of(const struct scene_level *level, int n_taps)
{
    const int end = level->offset + level->n_taps < n_taps ? level->offset + level->n_taps : n_taps;
    return end > level->offset ? (end - level->offset + level->hop - 1) / level->hop : 0;
}

struct bank_maker {         /* needed only while a bank is made                                                       */
    cudaStream_t stream;
    cudaEvent_t sent[2];    /* the copy from each half is done                                                        */
    float *pinned[2], *taps[2]; /* [rows][pitch]                                                                      */
    float2 *tw[HC_MAX_STEER_LEVELS];
    void *host, *device;
};

static void maker_close(struct bank_maker *m)
{
    if (device_hangs(m->stream)) return;
    for (int i = 0; i < 2; i++)
        if (m->sent[i]) cudaEventDestroy(m->sent[i]);
    pinned_free(m->host);
    device_free(m->device);
    if (m->stream) cudaStreamDestroy(m->stream);
    cudaGetLastError();
}

static size_t maker_cut(struct bank_maker *m, const struct scene_bank *bank, size_t half, void *base)
{
    size_t used = 0;
    for (int i = 0; i < 2; i++) m->taps[i] = (float *)device_cut(base, &used, half);
    for (int l = 0; l < bank->n_levels; l++)
        m->tw[l] = (float2 *)device_cut(base, &used, fft_factors_bytes(bank->log2_P[l]));
    return used;
}

/* Transforms entries [first, first + n), whose taps are in one half of the buffers. */
static int entries_transform(const struct scene_plan *plan, const struct scene_bank *bank, const struct bank_maker *m,
                             int half, size_t pitch, int n_taps, int first, int n, struct reason *why)
{
    for (int l = 0; l < bank->n_levels; l++) {
        struct response_spectra job = {};
        if (bank->n_parts[l] == 0) continue;
        job.tw = m->tw[l];
        job.taps = m->taps[half];
        job.pitch = pitch;
        job.n_rows = n * bank->n_out;
        job.n_out = bank->n_out;
        job.n_taps = l + 1 < plan->n_levels && plan->levels[l + 1].offset < n_taps ? plan->levels[l + 1].offset : n_taps;
        job.offset = plan->levels[l].offset;
        job.hop = plan->levels[l].hop;
        job.n_parts = bank->n_parts[l];
        job.log2_P = bank->log2_P[l];
        job.spectra = bank->h[l] + (((size_t)first * bank->n_parts[l] * bank->n_out) << bank->log2_P[l]);
        TRY(response_spectra_launch(&job, m->stream), "transforming a bank");
    }
    return HC_OK;
}

static int scene_bank_fill(const struct scene_plan *plan, struct scene_bank *bank, const hc_bank_data *data,
                           struct bank_maker *m, struct reason *why)
{
    const size_t pitch = (size_t)data->n_taps, entry_bytes = pitch * data->n_out * sizeof(float);
    int step = (int)(HALF_BYTES / entry_bytes);
    if (step < 1) step = 1;
    if (step > data->n_entries) step = data->n_entries;
    const size_t half = step * entry_bytes;

    PASS(live_stream_make(&m->stream, false, why));
    for (int i = 0; i < 2; i++)
        TRY(cudaEventCreateWithFlags(&m->sent[i], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    PASS(pinned_alloc(&m->host, 2 * half, why));
    for (int i = 0; i < 2; i++) m->pinned[i] = (float *)((char *)m->host + i * half);
    PASS(device_alloc(&m->device, maker_cut(m, bank, half, NULL), "the making of a bank", why));
    maker_cut(m, bank, half, m->device);
    for (int l = 0; l < bank->n_levels; l++)
        TRY(fft_factors_make(m->tw[l], bank->log2_P[l], m->stream), "making the tables of a transform");
    for (int first = 0, i = 0; first < data->n_entries; first += step, i ^= 1) {
        const int n = data->n_entries - first < step ? data->n_entries - first : step;
        if (first >= 2 * step) TRY(device_wait_event(m->sent[i], m->stream), "cudaEventQuery");
        for (int row = 0; row < n * data->n_out; row++)
            memcpy(m->pinned[i] + row * pitch, data->taps[(size_t)first * data->n_out + row], pitch * sizeof(float));
        TRY(cudaMemcpyAsync(m->taps[i], m->pinned[i], n * entry_bytes, cudaMemcpyHostToDevice, m->stream),
            "cudaMemcpyAsync(%zu)", n * entry_bytes);
        TRY(cudaEventRecord(m->sent[i], m->stream), "cudaEventRecord");
        PASS(entries_transform(plan, bank, m, i, pitch, data->n_taps, first, n, why));
    }
    TRY(device_wait(m->stream), "making a bank");
    return HC_OK;
}

static size_t bank_cut(struct scene_bank *bank, void *base)
{
    size_t used = 0;
    for (int l = 0; l < bank->n_levels; l++) {
        const size_t rows = (size_t)bank->n_entries * bank->n_parts[l] * bank->n_out;
        bank->h[l] = (float2 *)device_cut(base, &used, (rows << bank->log2_P[l]) * sizeof(float2));
    }
    return used;
}

static int bank_open(const struct scene_plan *plan, struct scene_bank *bank, const hc_bank_data *data,
                     struct reason *why)
{
    PASS(device_use(bank->device, why));
    bank->n_entries = data->n_entries;
    bank->n_out = data->n_out;
    bank->n_levels = plan->n_levels;
    for (int l = 0; l < plan->n_levels; l++) {
        PASS(bank->log2_P[l] = scene_log2_P(plan, l, why));
        bank->n_parts[l] = parts_of(&plan->levels[l], data->n_taps);
    }
    bank->bytes = bank_cut(bank, NULL);
    PASS(device_alloc(&bank->memory, bank->bytes, "the bank", why));
    bank_cut(bank, bank->memory);
    TRY(response_spectra_load(), "loading kernels");
    struct bank_maker maker = {};
    int rc = scene_bank_fill(plan, bank, data, &maker, why);
    maker_close(&maker);
    return rc;
}

int scene_bank_of_data(const struct scene_plan *plan, int device, const hc_bank_data *data, void **bank,
                       uint64_t *bytes, struct reason *why)
{
    struct scene_bank *b = (struct scene_bank *)calloc(1, sizeof *b);
    *bank = NULL;
    if (!b) return fail(HC_ENOMEM, why, "cuda: no host memory; free some memory");
    b->device = device;
    int rc = bank_open(plan, b, data, why);
    if (rc < 0) {
        scene_bank_release(b);
        return rc;
    }
    *bank = b;
    *bytes = b->bytes;
    return HC_OK;
}

bool scene_bank_responses(const void *impl, int level, int entry, struct scene_piece *piece)
{
    const struct scene_bank *bank = (const struct scene_bank *)impl;
    const size_t spectra = (size_t)bank->n_parts[level] * bank->n_out;
    piece->h = bank->h[level] + ((entry * spectra) << bank->log2_P[level]);
    piece->n_partitions = bank->n_parts[level];
    piece->n_out = bank->n_out;
    return piece->n_partitions > 0;
}

void scene_bank_release(void *bank)
{
    struct scene_bank *b = (struct scene_bank *)bank;
    if (!b) return;
    cudaSetDevice(b->device);
    device_free(b->memory);
    cudaGetLastError();
    free(b);
}
