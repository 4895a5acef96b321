#include "resident_head.h"

#include "resident.h"

#include "cuda_error.h"
#include "device_memory.h"
#include "partition.h"

#include "dsp/base/await.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATIENT_US = 1000000, /* a longer wait has no deadline: its thread does not play audio                        */
    CLOSE_US = 100000     /* a late block may take so long before an engine closes                                */
};

struct head {
    int device;
    struct resident_service *service;
    struct resident_job *job; /* pinned                                                                       */
    void *memory;             /* device                                                                       */
    cudaStream_t setup;
    uint32_t n_makings;
    uint32_t number, at; /* of the last request: its number, and the position after it                   */
};

struct head_mask {
    void *memory;           /* device; struct resident_mask                                                 */
    uint32_t making;        /* 1 for the engine's first mask, and so on: another mask may have the same address */
    uint32_t first_without; /* the number of the first request without it                                   */
};

/* ---- requests and answers ---------------------------------------------------------------------------------------- */

/* Loads a word of an answer. false: it is not that of this request, or of a later one, yet. */
static inline bool resident_word_read(const struct resident_word *from, uint32_t number, uint32_t *value)
{
    const uint64_t word = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
    *value = (uint32_t)word;
    return (int32_t)((uint32_t)(word >> 32) - number) >= 0;
}

/* A step of a loop that waits. Without a deadline it keeps the kernel on the GPU, and gives the processor to others.
 * HC_LATE: the deadline passed. HC_EDEVICE: the device is lost. */
static int wait_step(const struct head *h, int64_t *since_us, int64_t until_us, struct reason *why)
{
    const char *lost = resident_lost(h->service);
    if (lost) return fail(HC_EDEVICE, why, "%s", lost);
    const int64_t us = now_us();
    if (until_us - us > PATIENT_US) {
        resident_posted(h->service, us);
        await_pause(since_us);
    }
    return us > until_us ? HC_LATE : HC_OK;
}

/* Waits for a word. HC_LATE: the deadline passed. HC_EDEVICE: the device is lost. */
static inline int word_await(const struct head *h, const struct resident_word *from, uint32_t number, uint32_t *value,
                             int64_t until_us, struct reason *why)
{
    int64_t since_us = 0;
    for (unsigned spins = 1; !resident_word_read(from, number, value); spins++) {
        const int rc = spins % 64 == 0 ? wait_step(h, &since_us, until_us, why) : HC_OK;
        if (rc != HC_OK) return rc;
        cpu_relax();
    }
    return HC_OK;
}

/* Returns the first word of a group's answer: that of frame 0 of its first output. */
static const struct resident_word *answer_of(const struct resident_job *job, int group)
{
    return job->answer + (size_t)resident_first_out(job, group) * job->block;
}

/* Has every group answered this request? */
static bool is_answered(const struct head *h, uint32_t number)
{
    uint32_t value;
    for (int g = 0; g < h->job->n_groups; g++)
        if (!resident_word_read(answer_of(h->job, g), number, &value)) return false;
    return true;
}

/* Waits until every group has answered. Fails as word_await. */
static int answer_await(const struct head *h, uint32_t number, int64_t until_us, struct reason *why)
{
    uint32_t value;
    int rc = HC_OK;
    for (int g = 0; g < h->job->n_groups && rc == HC_OK; g++)
        rc = word_await(h, answer_of(h->job, g), number, &value, until_us, why);
    return rc;
}

static void word_write(struct resident_word *to, uint32_t value, uint32_t number)
{
    const uint64_t word = value | (uint64_t)number << 32; /* one store: the device reads a whole word */
    __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
}

static struct resident_word *request_at(const struct head *h)
{
    return h->job->request + (size_t)(h->number % RESIDENT_RING) * h->job->request_words;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

/* Divides the head among workers, and their shared memory. */
static int job_split(struct resident_job *job, const struct plan_costs *costs, const struct plan_shape *head,
                     int device, struct reason *why)
{
    size_t shared_max;
    int n_sm;
    TRY(resident_load(&shared_max), "loading the resident kernel");
    PASS(live_sm_count(device, &n_sm, why));
    if (n_sm < 2) return fail(HC_EUNSUPPORTED, why, "the GPU has one multiprocessor");
    const struct resident_split split =
        resident_split_choose(costs, head, resident_max_workers(n_sm), (double)shared_max);
    if (split.n_parts == 0) return fail(HC_EUNSUPPORTED, why, "too large for a resident kernel");
    job->n_in = head->n_in;
    job->n_out = head->n_out;
    job->block = head->block;
    job->history = resident_round_up(head->max_taps, 4);
    job->row = resident_row(job->history, job->block);
    job->block_span = resident_block_span(job->block);
    job->sums_at = split.ins * job->row;
    job->views_at = job->sums_at + resident_round_up(split.n_parts * split.outs * job->block, 4);
    job->n_groups = split.n_groups;
    job->n_parts = split.n_parts;
    job->n_workers = split.n_groups * split.n_parts;
    job->outs = split.outs;
    job->ins = split.ins;
    job->n_cached = 1;
    const size_t bytes = resident_shared_bytes(job), taps = (size_t)split.cells * job->history * sizeof(float);
    const size_t left = shared_max > bytes ? shared_max - bytes : 0;
    job->cache_taps = (int)((taps < left ? taps : left) / 16 * 4);
    const int n_per_sm = resident_workers_per_sm(resident_shared_bytes(job));
    job->n_cached = 2;
    const size_t both = resident_shared_bytes(job);
    if (both > shared_max || resident_workers_per_sm(both) < n_per_sm) job->n_cached = 1;
    job->request_words = RESIDENT_HEADER + job->n_in * job->block;
    return HC_OK;
}

/* Sets the pointers of the job to device memory; returns the bytes. base NULL: only counts. */
static size_t memory_cut(struct resident_job *job, void *base)
{
    const size_t history = (size_t)job->n_workers * job->ins * job->history * sizeof(float);
    const size_t sums = (size_t)job->n_workers * RESIDENT_RING * job->outs * job->block;
    size_t used = 0;
    job->on_device = (struct resident_job *)device_cut(base, &used, sizeof *job);
    job->histories = (float *)device_cut(base, &used, history);
    job->checkpoints = (uint32_t *)device_cut(base, &used, job->n_workers * CHECKPOINT_WORDS * sizeof(uint32_t));
    job->copy = job->sums = NULL;
    if (job->n_workers > 1)
        job->copy = (struct resident_word *)device_cut(
            base, &used, RESIDENT_RING * (size_t)job->request_words * sizeof(struct resident_word));
    if (job->n_parts > 1)
        job->sums = (struct resident_word *)device_cut(base, &used, sums * sizeof(struct resident_word));
    return used;
}

/* Does a debugger trace this process? It may run one kernel at a time. */
static bool is_traced(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    int tracer = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "TracerPid: %d", &tracer) == 1) break;
    if (file) fclose(file);
    return tracer != 0;
}

const char *resident_head_refusal(int device)
{
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    int mapped = 0, concurrent = 0, display = 0, mps = 0;
    cudaDeviceGetAttribute(&mapped, cudaDevAttrCanMapHostMemory, device);
    cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentKernels, device);
    cudaDeviceGetAttribute(&display, cudaDevAttrKernelExecTimeout, device);
    cudaDeviceGetAttribute(&mps, cudaDevAttrMpsEnabled, device);
    cudaGetLastError(); /* an older driver does not know MPS */
    if (!mapped || !concurrent) return "the GPU does not run two kernels at once, or cannot read host memory";
    if (display) return "the GPU drives a display";
    if (mps) return "MPS shares the GPU";
    if (blocking && *blocking && strcmp(blocking, "0") != 0) return "CUDA_LAUNCH_BLOCKING is set";
    return is_traced() ? "a debugger traces this process" : NULL;
}

void resident_head_limit(int device, struct plan_costs *costs)
{
    int n_sm, bytes;
    if (live_sm_count(device, &n_sm, NULL) == HC_OK) costs->max_workers = resident_max_workers(n_sm);
    if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess)
        costs->worker_bytes = bytes;
    cudaGetLastError(); /* the device may be absent */
}

static int head_open(struct head *h, const hc_config *config, const struct plan *plan, struct reason *why)
{
    PASS(device_use(h->device, why));
    const char *refusal = resident_head_refusal(h->device);
    if (refusal) return fail(HC_EUNSUPPORTED, why, "%s", refusal);
    PASS(device_alloc_host((void **)&h->job, sizeof *h->job, why));
    struct resident_job *job = h->job;
    const struct plan_shape head = {plan->head_taps, plan->block, config->n_in, config->n_out, config->n_routes};
    PASS(job_split(job, &plan->costs, &head, h->device, why));
    PASS(live_stream_make(&h->setup, false, why));
    const size_t word = sizeof(struct resident_word);
    PASS(device_alloc_host((void **)&job->request, RESIDENT_RING * (size_t)job->request_words * word, why));
    PASS(device_alloc_host((void **)&job->answer, (size_t)job->n_out * job->block * word, why));
    const size_t bytes = memory_cut(job, NULL);
    PASS(device_alloc(&h->memory, bytes, "the engine", why));
    memory_cut(job, h->memory);
    TRY(cudaMemsetAsync(h->memory, 0, bytes, h->setup), "cudaMemsetAsync");
    TRY(device_wait(h->setup), "clearing the input history");
    return resident_enter(h->device, job, &h->service, why);
}

void resident_head_close(void *state)
{
    struct head *h = (struct head *)state;
    if (!h) return;
    cudaSetDevice(h->device);
    if (h->service) {
        resident_leave(h->service, h->job);
        if (answer_await(h, h->number + 1 - RESIDENT_RING, now_us() + CLOSE_US, NULL) == HC_OK) {
            h->number++;
            word_write(request_at(h) + HEADER_N, 0, h->number);
        }
        resident_follow(h->service, h->setup);
    }
    if (device_hangs(h->setup)) return;
    device_free(h->memory);
    if (h->job) {
        device_free_host(h->job->request);
        device_free_host(h->job->answer);
    }
    device_free_host(h->job);
    if (h->setup) cudaStreamDestroy(h->setup);
    cudaGetLastError();
    free(h);
}

int resident_head_open(const hc_config *config, const struct plan *plan, int device, void **state, struct reason *why)
{
    struct head *h = (struct head *)calloc(1, sizeof *h);
    *state = NULL;
    if (!h) return fail(HC_ENOMEM, why, "cuda: no host memory; free some memory");
    h->device = device;
    const int rc = head_open(h, config, plan, why);
    if (rc < 0) {
        resident_head_close(h);
        return rc;
    }
    *state = h;
    return HC_OK;
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* Lays out a mask at base (struct resident_mask), and returns its bytes. base NULL: only counts. */
static size_t mask_lay_out(const struct resident_job *job, const struct matrix *matrix, char *base)
{
    int n_taps = 4;
    for (int r = 0; r < matrix->n_responses; r++)
        if (matrix->n_taps[r] > n_taps) n_taps = resident_round_up(matrix->n_taps[r], 4);
    struct resident_mask *mask = (struct resident_mask *)base;
    const struct resident_tables at = resident_tables_at(sizeof *mask / 4, job->n_parts * job->n_out, matrix->n_cells);
    const size_t bytes = ((size_t)at.taps + (size_t)matrix->n_cells * n_taps) * 4;
    if (!base) return bytes;
    mask->n_taps = n_taps;
    mask->n_cells = matrix->n_cells;
    int *first_cell = (int *)base + at.first_cell, *in_of = (int *)base + at.in_of, n = 0;
    float *taps = (float *)base + at.taps;
    for (int part = 0; part < job->n_parts; part++) {
        const int from = resident_first_in(job, part), to = resident_first_in(job, part + 1);
        for (int c = 0, out = 0; out < job->n_out; out++) {
            *first_cell++ = n;
            for (; c < matrix->n_cells && matrix->cells[c].out == out; c++) {
                const struct cell *cell = &matrix->cells[c];
                if (cell->in < from || cell->in >= to) continue;
                memcpy(taps + (size_t)n * n_taps, matrix->taps[cell->response],
                       matrix->n_taps[cell->response] * sizeof *taps);
                in_of[n++] = cell->in - from;
            }
        }
    }
    *first_cell = n;
    return bytes;
}

void resident_head_mask_free(void *state, void *mask)
{
    struct head *h = (struct head *)state;
    struct head_mask *m = (struct head_mask *)mask;
    if (!m) return;
    cudaSetDevice(h->device);
    resident_follow(h->service, h->setup); /* a worker that has not taken its seat yet may load the mask */
    device_free_behind(m->memory, h->setup);
    free(m);
}

int resident_head_mask_make(void *state, const struct matrix *matrix, void **mask, struct reason *why)
{
    struct head *h = (struct head *)state;
    struct head_mask *m = (struct head_mask *)calloc(1, sizeof *m);
    const size_t bytes = mask_lay_out(h->job, matrix, NULL);
    char *host = (char *)calloc(1, bytes);
    *mask = NULL;
    cudaSetDevice(h->device);
    int rc = m && host ? device_alloc(&m->memory, bytes, "the mask", why)
                       : fail(HC_ENOMEM, why, "cuda: no host memory for a mask; free some memory");
    if (rc == HC_OK) {
        mask_lay_out(h->job, matrix, host);
        cudaError_t e = cudaMemcpyAsync(m->memory, host, bytes, cudaMemcpyHostToDevice, h->setup);
        if (e == cudaSuccess) e = device_wait(h->setup);
        if (e != cudaSuccess) rc = cuda_fail(e, why, "uploading a mask");
    }
    free(host);
    if (rc < 0)
        resident_head_mask_free(h, m);
    else
        m->making = ++h->n_makings, *mask = m;
    return rc;
}

/* ---- play -------------------------------------------------------------------------------------------------------- */

void resident_head_mask_retire(void *state, void *mask)
{
    /* The next block is the first without the mask. Until it is answered, a new worker may load the mask. */
    ((struct head_mask *)mask)->first_without = ((struct head *)state)->number + 1;
}

bool resident_head_mask_released(void *state, const void *mask)
{
    return is_answered((const struct head *)state, ((const struct head_mask *)mask)->first_without);
}

static void resident_mask_write(struct resident_word *to, const void *mask, uint32_t number)
{
    const struct head_mask *m = (const struct head_mask *)mask;
    const uint64_t address = m ? (uint64_t)m->memory : 0;
    word_write(to, (uint32_t)address, number);
    word_write(to + 1, (uint32_t)(address >> 32), number);
    word_write(to + 2, m ? m->making : 0, number);
}

/* rows NULL: silence. */
static void request_write(const struct head *h, const struct rows *rows, int n, const struct fade *fade)
{
    struct resident_word *to = request_at(h);
    const bool fades = fade->pos < fade->len;
    struct resident_word *frames = to + RESIDENT_HEADER;
    for (int in = 0; in < h->job->n_in; in++, frames += n)
        for (int i = 0; i < n; i++) {
            uint32_t bits = 0;
            if (rows) memcpy(&bits, rows->in[in] + i, sizeof bits);
            word_write(frames + i, bits, h->number);
        }
    word_write(to + HEADER_AT, h->at, h->number);
    resident_mask_write(to + HEADER_TO, fade->to, h->number);
    resident_mask_write(to + HEADER_FROM, fades ? fade->from : NULL, h->number);
    word_write(to + HEADER_FADE_POS, (uint32_t)fade->pos, h->number);
    word_write(to + HEADER_FADE_LEN, fades ? (uint32_t)fade->len : 0, h->number);
    word_write(to + HEADER_N, (uint32_t)n, h->number); /* the last word: the worker polls it */
}

/* Reads an output, word by word as they come. */
static int answer_read(const struct head *h, int out, float *y, int n, int64_t until_us, struct reason *why)
{
    const struct resident_word *from = h->job->answer + (size_t)out * h->job->block;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        const int rc = word_await(h, from + i, h->number, &bits, until_us, why);
        if (rc != HC_OK) return rc;
        memcpy(y + i, &bits, sizeof bits);
    }
    return HC_OK;
}

int resident_head_play(void *state, const struct rows *rows, int n, const struct fade *fade, struct reason *why)
{
    struct head *h = (struct head *)state;
    int rc = answer_await(h, h->number + 1 - RESIDENT_RING, rows->until_us, why); /* its ring entry is free */
    if (rc == HC_OK) {
        h->number++;
        request_write(h, rows, n, fade);
        const int64_t us = now_us();
        resident_posted(h->service, us);
        if (rows->until_us - us <= PATIENT_US) resident_lead(h->service);
    }
    h->at += (uint32_t)n; /* the workers replace skipped frames by silence */
    for (int out = 0; out < h->job->n_out && rc == HC_OK; out++)
        rc = answer_read(h, out, rows->out[out], n, rows->until_us, why);
    for (int out = 0; out < h->job->n_out && rc != HC_OK; out++) memset(rows->out[out], 0, n * sizeof(float));
    return rc;
}

const char *resident_head_mode(const void *state)
{
    return resident_mode(((const struct head *)state)->service);
}

/* Plays a silent frame without a mask: no worker reads a mask afterwards. The skipped frames clear the history. */
int resident_head_reset(void *state, struct reason *why)
{
    struct head *h = (struct head *)state;
    const struct fade silence = {};
    int rc = answer_await(h, h->number, AWAIT_FOREVER, why);
    if (rc < 0) return rc;
    h->number++;
    request_write(h, NULL, 1, &silence);
    rc = answer_await(h, h->number, AWAIT_FOREVER, why);
    h->at += (uint32_t)(h->job->history + h->job->block_span);
    return rc;
}
