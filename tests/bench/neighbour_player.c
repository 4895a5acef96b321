/* The player of bench_neighbour.py, which calls it through ctypes from a thread of its own: that thread plays blocks by
 * the clock, and needs no lock of Python meanwhile. */
#include "host/bench/bench_play.h"
#include "host/bench/bench_steer.h"
#include "host/message.h"

#include <stdlib.h>

enum { ENTRIES = 1000, THREAD_SOURCES = 1024 }; /* as haloconv bench scene */

struct player {
    struct bench_shape shape;
    struct bench_result result;
    struct steer_bench steer; /* if there are sources */
    hc_engine *engine;
};

struct player *player_open(const char *backend, int n_in, int n_out, bool diagonal, bool moves, int taps, char *why,
                           size_t cap);
bool player_play(struct player *player, double seconds, char *text, size_t cap);
void player_close(struct player *player);

/* moves: the inputs are moving sources, each steered before every block. why gets the device or, if the result is NULL,
 * the reason. backend stays the caller's. */
struct player *player_open(const char *backend, int n_in, int n_out, bool diagonal, bool moves, int taps, char *why,
                           size_t cap)
{
    struct player *p = calloc(1, sizeof *p);
    if (!p) {
        message_write(why, cap, "bench: no memory; free some memory");
        return NULL;
    }
    p->shape = bench_shape_usual();
    p->shape.backend = backend;
    p->shape.n_in = n_in;
    p->shape.n_out = n_out;
    p->shape.n_sources = moves ? n_in : 0;
    p->shape.diagonal = diagonal;
    p->shape.taps = taps;
    p->shape.spin = true;
    p->steer = (struct steer_bench){
        .n_entries = ENTRIES, .n_mix = 1, .every = 1, .n_threads = n_in > THREAD_SOURCES ? 1 : 0};
    bool good = bench_open(&p->shape, &p->engine, &p->result, why, cap);
    if (good && moves) {
        good = steer_open(&p->steer, p->engine, &p->shape, why, cap);
        p->shape.each = (struct bench_each){steer_block, &p->steer};
        if (!good) bench_close(&p->shape, &p->engine);
    }
    if (good) {
        message_write(why, cap, "%s", p->result.info.device);
        return p;
    }
    free(p);
    return NULL;
}

/* Plays, and writes the result to text as JSON. false: text has the reason. */
bool player_play(struct player *p, double seconds, char *text, size_t cap)
{
    if (!bench_play(&p->engine, &p->shape, seconds, true, false, &p->result, text, cap)) return false;
    json_t *json = bench_result_json(&p->shape, &p->result);
    size_t n = json_dumpb(json, text, cap, 0);
    json_decref(json);
    if (n == 0 || n >= cap) return message_write(text, cap, "bench: no memory for the result; free some memory");
    text[n] = '\0';
    return true;
}

void player_close(struct player *p)
{
    if (p->shape.n_sources > 0) steer_close(&p->steer);
    bench_close(&p->shape, &p->engine);
    free(p);
}
