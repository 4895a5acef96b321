/* Blocks carried by several threads arrive whole and in time: each part when it is said to be there, whoever carries it,
 * however late a hand is; what is not finite is counted once. */
#include "dsp/engine/backend.h"
#include "check.h"
#include "dsp/engine/ferry.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { IN = 75, OUT = 50, BLOCK = 64 };

struct crossing {
    struct ferry *ferry;
    struct slot slot;
    int n, n_blocks;
    uint64_t seed;
    atomic_int posted, finished;
};

static float sample(int block, int ch, int i) { return (float)((block * 131 + ch * 17 + i) % 4093 + 1); }

/* The device: what comes out of channel o is what went into channel o, negated. It begins with each part as it comes. */
static void *device(void *data)
{
    struct crossing *c = data;
    struct random r = random_seeded(c->seed);
    for (int block = 0; block < c->n_blocks; block++) {
        while (atomic_load(&c->posted) <= block) sched_yield();
        for (int part = 0; part < FERRY_PARTS;) {
            int from = IN * part / FERRY_PARTS;
            part = ferry_loaded(c->ferry, part);
            for (int ch = from; ch < IN * part / FERRY_PARTS && ch < OUT; ch++)
                for (int i = 0; i < c->n; i++) c->slot.out[ch * BLOCK + i] = -c->slot.in[ch * BLOCK + i];
        }
        for (int landed = 0; landed < OUT;) {
            landed += random_int(&r, 1, OUT);
            ferry_landed(c->ferry, landed < OUT ? landed : OUT);
            if (landed < OUT) nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
        }
        atomic_store(&c->finished, block + 1);
    }
    return NULL;
}

static void crossings(int n_hands, int look_us, int n_blocks, uint64_t seed)
{
    struct crossing c = {.seed = seed, .n_blocks = n_blocks, .ferry = ferry_open(n_hands, IN, OUT, BLOCK, look_us, simd_choose())};
    struct random r = random_seeded(seed);
    float *in = must_alloc(IN * BLOCK, sizeof *in), *out = must_alloc(OUT * BLOCK, sizeof *out);
    const float *ins[IN];
    float *outs[OUT];
    pthread_t thread;
    check(c.ferry != NULL, "no ferry");
    c.slot.in = must_alloc(IN * BLOCK, sizeof *in);
    c.slot.out = must_alloc(OUT * BLOCK, sizeof *out);
    for (int ch = 0; ch < IN; ch++) ins[ch] = in + ch * BLOCK;
    for (int ch = 0; ch < OUT; ch++) outs[ch] = out + ch * BLOCK;
    pthread_create(&thread, NULL, device, &c);
    for (int block = 0; block < n_blocks; block++) {
        c.n = random_int(&r, 0, 1) ? BLOCK : random_int(&r, 1, BLOCK);
        for (int ch = 0; ch < IN; ch++)
            for (int i = 0; i < c.n; i++) in[ch * BLOCK + i] = sample(block, ch, i);
        int bad = random_int(&r, 0, 3), bad_channel = random_int(&r, OUT, IN - 1);
        for (int i = 0; i < bad && i < c.n; i++) in[bad_channel * BLOCK + i] = i % 2 ? INFINITY : NAN;
        ferry_begin(c.ferry, &c.slot, ins, outs, c.n);
        atomic_store(&c.posted, block + 1);
        size_t found = ferry_carry(c.ferry);
        check(found == (size_t)(bad < c.n ? bad : c.n), "block %d: %zu not finite, want %d", block, found, bad);
        for (int ch = 0; ch < OUT; ch++)
            for (int i = 0; i < c.n; i++)
                check(out[ch * BLOCK + i] == -sample(block, ch, i), "%d hands, seed %d, block %d, channel %d, frame %d: got %g, want %g",
                      n_hands, (int)seed, block, ch, i, (double)out[ch * BLOCK + i], (double)-sample(block, ch, i));
        while (atomic_load(&c.finished) <= block) sched_yield();
    }
    pthread_join(thread, NULL);
    ferry_close(c.ferry);
    free(c.slot.in);
    free(c.slot.out);
    free(in);
    free(out);
}

static void blocks_arrive_whole(const char *backend)
{
    (void)backend;
    for (int hands = 0; hands <= 3; hands++) {
        crossings(hands, 0, 500, 10 + (uint64_t)hands);
        crossings(hands, 100, 50, 20 + (uint64_t)hands); /* who looks is in the way where there are few processors */
    }
}

/* Small blocks, one thread, or no processors to spare: nobody is hired. */
static void hands_are_hired_where_they_pay(const char *backend)
{
    (void)backend;
    check(ferry_hands(2, 2, 64, 0) == 0 && ferry_hands(2, 2, 64, 8) == 0, "for stereo");
    check(ferry_hands(16384, 16384, 64, 1) == 0, "beside the only thread allowed");
    check(ferry_hands(16384, 16384, 64, 4) == 3, "%d of 3", ferry_hands(16384, 16384, 64, 4));
    check(ferry_hands(65536, 65536, 64, 64) <= 15, "more than memory has room for");
}

int main(void)
{
    static const struct test tests[] = {
        {"blocks_arrive_whole", blocks_arrive_whole, false},
        {"hands_are_hired_where_they_pay", hands_are_hired_where_they_pay, false},
    };
    return check_main("ferry", tests, sizeof tests / sizeof *tests);
}
