/* Blocks that several threads copy are complete and in time: each chunk is there when its arrival is reported,
 * whichever thread copies it and however late a copy thread is. A sample that is not finite is counted once, in the
 * input and in the output. */
#include "check.h"
#include "dsp/device/backend.h"
#include "dsp/device/parallel_copy.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { IN = 75, OUT = 50, BLOCK = 64 };

struct transfer {
    struct parallel_copy *copy;
    struct io_buffer buffer;
    int n, n_blocks;
    uint64_t seed;
    atomic_int posted, finished;
};

static float sample(int block, int ch, int i)
{
    return (float)((block * 131 + ch * 17 + i) % 4093 + 1);
}

static bool overflows(int block, int ch, int i)
{
    return i == 0 && ch == block % OUT;
}

/* The device: the output of channel o is the input of channel o, negated, but for one sample that overflows. It begins
 * with each chunk as that arrives. */
static void *device(void *data)
{
    struct transfer *c = data;
    struct random r = random_seeded(c->seed);
    for (int block = 0; block < c->n_blocks; block++) {
        while (atomic_load(&c->posted) <= block) sched_yield();
        for (int chunk = 0; chunk < COPY_CHUNKS;) {
            int from = IN * chunk / COPY_CHUNKS;
            chunk = parallel_copy_loaded(c->copy, chunk);
            for (int ch = from; ch < IN * chunk / COPY_CHUNKS && ch < OUT; ch++)
                for (int i = 0; i < c->n; i++)
                    c->buffer.out[ch * BLOCK + i] = overflows(block, ch, i) ? NAN : -c->buffer.in[ch * BLOCK + i];
        }
        for (int done = 0; done < OUT;) {
            done += random_int(&r, 1, OUT);
            parallel_copy_done(c->copy, done < OUT ? done : OUT);
            if (done < OUT) pause_us(1);
        }
        atomic_store(&c->finished, block + 1);
    }
    return NULL;
}

static void copies(int n_threads, int spin_us, int n_blocks, uint64_t seed)
{
    struct transfer c = {.seed = seed,
                         .n_blocks = n_blocks,
                         .copy = parallel_copy_open(n_threads, IN, OUT, BLOCK, spin_us, samples_choose())};
    struct random r = random_seeded(seed);
    float *in = must_alloc(IN * BLOCK, sizeof *in), *out = must_alloc(OUT * BLOCK, sizeof *out);
    const float *ins[IN];
    float *outs[OUT];
    pthread_t thread;
    check(c.copy != NULL, "no parallel copy");
    c.buffer.in = must_alloc(IN * BLOCK, sizeof *in);
    c.buffer.out = must_alloc(OUT * BLOCK, sizeof *out);
    for (int ch = 0; ch < IN; ch++) ins[ch] = in + ch * BLOCK;
    for (int ch = 0; ch < OUT; ch++) outs[ch] = out + ch * BLOCK;
    pthread_create(&thread, NULL, device, &c);
    for (int block = 0; block < n_blocks; block++) {
        c.n = random_int(&r, 0, 1) ? BLOCK : random_int(&r, 1, BLOCK);
        for (int ch = 0; ch < IN; ch++)
            for (int i = 0; i < c.n; i++) in[ch * BLOCK + i] = sample(block, ch, i);
        int bad = random_int(&r, 0, 3), bad_channel = random_int(&r, OUT, IN - 1);
        for (int i = 0; i < bad && i < c.n; i++) in[bad_channel * BLOCK + i] = i % 2 ? INFINITY : NAN;
        parallel_copy_begin(c.copy, &c.buffer, ins, outs, c.n);
        atomic_store(&c.posted, block + 1);
        size_t found = parallel_copy_finish(c.copy);
        check(found == (size_t)(bad < c.n ? bad : c.n), "block %d: %zu not finite, want %d", block, found, bad);
        check(parallel_copy_overflowed(c.copy) == 1, "block %d: the output's NaN is not counted once", block);
        for (int ch = 0; ch < OUT; ch++)
            for (int i = 0; i < c.n; i++)
                check(out[ch * BLOCK + i] == (overflows(block, ch, i) ? 0 : -sample(block, ch, i)),
                      "%d copy threads, seed %d, block %d, channel %d, frame %d: got %g, want %g", n_threads, (int)seed,
                      block, ch, i, (double)out[ch * BLOCK + i], (double)-sample(block, ch, i));
        while (atomic_load(&c.finished) <= block) sched_yield();
    }
    pthread_join(thread, NULL);
    parallel_copy_close(c.copy);
    free(c.buffer.in);
    free(c.buffer.out);
    free(in);
    free(out);
}

static void blocks_arrive_whole(const char *backend)
{
    for (int n = 0; n <= 3; n++) {
        copies(n, 0, 500, 10 + (uint64_t)n);
        copies(n, 100, 50, 20 + (uint64_t)n); /* with few processors a thread that spins delays the others */
    }
}

/* Small blocks, one thread, or no processors to spare: no copy threads. */
static void threads_are_used_where_they_pay(const char *backend)
{
    check(parallel_copy_threads(2, 2, 64, 0) == 0 && parallel_copy_threads(2, 2, 64, 8) == 0, "for stereo");
    check(parallel_copy_threads(16384, 16384, 64, 1) == 0, "with only one thread allowed");
    check(parallel_copy_threads(16384, 16384, 64, 4) == 3, "%d of 3", parallel_copy_threads(16384, 16384, 64, 4));
    check(parallel_copy_threads(65536, 65536, 64, 64) <= 15, "more than memory has room for");
}

int main(void)
{
    static const struct test tests[] = {
        TEST(blocks_arrive_whole, false),
        TEST(threads_are_used_where_they_pay, false),
    };
    return check_main("parallel_copy", tests, sizeof tests / sizeof *tests);
}
