/* resident_costs - measures the costs of resident heads (resident_us in dsp/device/resident_split.h), each by the
 * median time of blocks of one input:
 *
 *   cost          outputs (a worker each), taps, frames
 *   call_ns       1, few, 1     less   its words
 *   mac_ns        1, near, 256  less   1, few, 256      near: taps that fit in shared memory beside the history
 *   far_mac_ns    1, far, 64    less   call, words      far: taps that do not
 *   hop_ns        2, few, 1     less   call, words
 *
 * word_ns stays as built in: hundreds of words travel at once, and a block that has more moves its history each time.
 */
#include "resident_head.h"

#include "resident.h"

#include "cuda_error.h"

#include "dsp/base/await.h"
#include "dsp/base/order.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 256,
    FAR_BLOCK = 64,
    MAX_OUT = 2,
    FEW_TAPS = 4,
    UNTIMED = 10, /* blocks of a figure; the first ones load the mask                                           */
    MAX_TIMED = 101,
    MIN_TIMED = 9,
    MAX_NS = 5000000, /* after so long no more than MIN_TIMED blocks are timed                                */
    LATE_US = 2000000
};

struct head_bench {
    struct plan plan;
    void *head;
    int n_out;
};

static int resident_bench_open(struct head_bench *b, const struct plan_costs *costs, int device, int n_out, int n_taps,
                               struct reason *why)
{
    hc_config config = {};
    config.block = BLOCK;
    config.n_in = 1;
    config.n_out = config.n_routes = b->n_out = n_out;
    config.max_taps = n_taps;
    b->plan.block = BLOCK;
    b->plan.head_taps = b->plan.max_taps = n_taps;
    b->plan.costs = *costs;
    return resident_head_open(&config, &b->plan, device, &b->head, why);
}

/* *ns gets the median time of blocks of n frames. */
static int blocks_time(const struct head_bench *b, void *mask, int n, double *ns, struct reason *why)
{
    const float silence[BLOCK] = {}, *in[] = {silence};
    float frames[MAX_OUT][BLOCK], *out[] = {frames[0], frames[1]};
    double elapsed[MAX_TIMED];
    struct fade fade = {};
    fade.to = mask;
    const int64_t end = now_ns() + MAX_NS;
    int timed = -UNTIMED;
    for (; timed < MIN_TIMED || (timed < MAX_TIMED && now_ns() < end); timed++) {
        const int64_t start = now_ns();
        const struct rows rows = {in, out, start / 1000 + LATE_US};
        const int rc = resident_head_play(b->head, &rows, n, &fade, why);
        if (rc == HC_LATE) return fail(HC_EUNSUPPORTED, why, "the resident kernel is late");
        if (rc < 0) return rc;
        if (timed >= 0) elapsed[timed] = (double)(now_ns() - start);
    }
    qsort(elapsed, timed, sizeof *elapsed, order_of_doubles);
    *ns = elapsed[timed / 2];
    return HC_OK;
}

/* The same with a mask of n_taps taps for each output. */
static int mask_time(const struct head_bench *b, int n_taps, int n, double *ns, struct reason *why)
{
    float *taps = (float *)calloc(n_taps, sizeof *taps);
    struct cell cells[MAX_OUT] = {{0, 0, 0}, {0, 1, 0}};
    const struct matrix matrix = {1, &taps, &n_taps, b->n_out, cells};
    void *mask = NULL;
    int rc = taps ? resident_head_mask_make(b->head, &matrix, &mask, why)
                  : fail(HC_ENOMEM, why, "cuda: no host memory; free some memory");
    free(taps);
    if (rc < 0) return rc;
    rc = blocks_time(b, mask, n, ns, why);
    const int error = resident_head_reset(b->head, why); /* the workers stop reading the mask */
    resident_head_mask_free(b->head, mask);
    return rc < 0 ? rc : error;
}

/* One worker: a response, whose taps fit in shared memory beside the history or not. */
static int one_measure(struct head_bench *b, struct plan_costs *costs, int near_taps, int far_taps, struct reason *why)
{
    double few, near, far, frame;
    PASS(mask_time(b, FEW_TAPS, BLOCK, &few, why));
    PASS(mask_time(b, near_taps, BLOCK, &near, why));
    PASS(mask_time(b, far_taps, FAR_BLOCK, &far, why));
    PASS(mask_time(b, FEW_TAPS, 1, &frame, why)); /* the last one: later blocks begin between two units */
    costs->call_ns = frame - 2 * costs->word_ns;
    costs->mac_ns = (near - few) / ((double)(near_taps - FEW_TAPS) * BLOCK); /* both move the history */
    costs->far_mac_ns = (far - costs->call_ns - 2 * costs->word_ns * FAR_BLOCK) / ((double)far_taps * FAR_BLOCK);
    const char *mode = resident_head_mode(b->head);
    return strcmp(mode, "resident") == 0 ? HC_OK : fail(HC_EUNSUPPORTED, why, "%s", mode);
}

/* Two workers, an output each. */
static int two_measure(struct head_bench *b, struct plan_costs *costs, struct reason *why)
{
    double frame;
    PASS(mask_time(b, FEW_TAPS, 1, &frame, why));
    costs->hop_ns = frame - costs->call_ns - 3 * costs->word_ns;
    return HC_OK;
}

int resident_costs_measure(int device, struct plan_costs *costs, struct reason *why)
{
    struct head_bench one = {}, two = {};
    struct plan_costs found = *costs;
    size_t shared_max = 0;
    TRY(cudaSetDevice(device), "cudaSetDevice(%d)", device);
    TRY(resident_load(&shared_max), "loading the resident kernel");
    const int floats = (int)(shared_max / sizeof(float)), far_taps = floats / 10 * 7, near_taps = floats / 5;
    int error = resident_bench_open(&one, costs, device, 1, far_taps, why);
    if (!error) error = one_measure(&one, &found, near_taps, far_taps, why);
    resident_head_close(one.head);
    if (!error) error = resident_bench_open(&two, costs, device, MAX_OUT, near_taps, why);
    if (!error) error = two_measure(&two, &found, why);
    resident_head_close(two.head);
    if (!error) *costs = found;
    return error;
}
