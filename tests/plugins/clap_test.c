/* The CLAP plugin in a host: the library, ports, blocks, parameters, states, presets, and its real-time rules.
 *
 * struct take keeps its whole input and output; played.h computes any frame in float64 from the mask's file. The host
 * renders offline, so that a busy machine does not fail a test, and a mask is there with the next block.
 */
#include "clap_host.h"
#include "played.h"
#include "trap.h"

#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RATE = 48000, STATE_BYTES = 32768 };

static const char *shipped(const char *name)
{
    static char path[4200];
    char folder[4096];
    const char *build = getenv("BUILD");
    check(realpath(build ? build : "build", folder), "no folder of the build");
    snprintf(path, sizeof path, "%s/haloconv.lv2/%s", folder, name);
    return path;
}

/* ---- takes -------------------------------------------------------------------------------------- */

struct take {
    struct clap_session *s;
    int rate, n, cap;
    float *in[MAX_CHANNELS], *out[MAX_CHANNELS]; /* [cap] */
    bool in_place, is_double;
    clap_process_status status; /* of the last block */
};

static struct take take_open(const char *variant, int cap, uint32_t max_frames)
{
    struct take t = {.s = clap_open(variant, true), .rate = RATE, .cap = cap};
    struct random r = random_seeded(5);
    for (int ch = 0; ch < t.s->variant->n_in; ch++) t.in[ch] = noise(&r, cap);
    for (int ch = 0; ch < t.s->variant->n_out; ch++) t.out[ch] = must_alloc((size_t)cap, sizeof(float));
    clap_set_offline(t.s, true);
    clap_activate(t.s, RATE, max_frames);
    return t;
}

static void take_close(struct take *t)
{
    int n_in = t->s->variant->n_in, n_out = t->s->variant->n_out;
    clap_close(t->s);
    for (int ch = 0; ch < n_in; ch++) free(t->in[ch]);
    for (int ch = 0; ch < n_out; ch++) free(t->out[ch]);
}

/* The same block in buffers of 64 bits; in place: in those of the output. */
static clap_process_status play_doubles(struct take *t, float *const *in, float *const *out, int n)
{
    static double from[MAX_CHANNELS][8192], to[MAX_CHANNELS][8192];
    double *ins[MAX_CHANNELS], *outs[MAX_CHANNELS];
    int n_in = t->s->variant->n_in, n_out = t->s->variant->n_out;
    for (int ch = 0; ch < n_out; ch++) outs[ch] = to[ch];
    for (int ch = 0; ch < n_in; ch++) {
        ins[ch] = t->in_place ? to[ch] : from[ch];
        for (int i = 0; i < n; i++) ins[ch][i] = (double)in[ch][i];
    }
    clap_audio_buffer_t a = {.data64 = ins, .channel_count = (uint32_t)n_in};
    clap_audio_buffer_t b = {.data64 = outs, .channel_count = (uint32_t)n_out};
    clap_process_status status = clap_process_block(t->s, &(clap_process_t){.frames_count = (uint32_t)n,
                                                                            .audio_inputs = &a,
                                                                            .audio_outputs = &b,
                                                                            .audio_inputs_count = 1,
                                                                            .audio_outputs_count = 1,
                                                                            .in_events = clap_events(t->s)});
    for (int ch = 0; ch < n_out; ch++)
        for (int i = 0; i < n; i++) out[ch][i] = (float)outs[ch][i];
    return status;
}

static void take_play(void *take, int n)
{
    struct take *t = take;
    float *in[MAX_CHANNELS], *out[MAX_CHANNELS];
    check(t->n + n <= t->cap, "the test asks for more than its own %d frames", t->cap);
    for (int ch = 0; ch < t->s->variant->n_out; ch++) out[ch] = t->out[ch] + t->n;
    for (int ch = 0; ch < t->s->variant->n_in; ch++) {
        in[ch] = t->in[ch] + t->n;
        if (!t->in_place || t->is_double) continue;
        memcpy(out[ch], in[ch], (size_t)n * sizeof(float));
        in[ch] = out[ch];
    }
    t->status = t->is_double ? play_doubles(t, in, out, n) : clap_play(t->s, in, out, (uint32_t)n);
    check(t->status != CLAP_PROCESS_ERROR, "a block of %d frames is refused", n);
    t->n += n;
}

static void check_mix(const struct take *t, const char *path, struct mix mix, int origin, int first)
{
    check_played(&(struct played){t->s->variant, t->rate, t->n, t->in, t->out}, path, mix, origin, first, t->n);
}

/* An active instance gets the file; the next block has its crossfade. */
static void load_file(struct take *t, const char *path)
{
    check(t->s->presets->from_location(t->s->plugin, MORE_LOCATION_FILE, path, NULL), "%s is refused: %s", path,
          t->s->error);
}

/* ---- the library -------------------------------------------------------------------------------- */

static void a_scan_is_fast_and_opens_nothing(const char *backend)
{
    int files = count_own("fd");
    clock_t start = clock();
    const clap_plugin_factory_t *factory = clap_factory();
    check(factory->get_plugin_count(factory) == N_VARIANTS, "%u plugins", factory->get_plugin_count(factory));
    for (uint32_t i = 0; i < N_VARIANTS; i++) {
        const clap_plugin_descriptor_t *d = factory->get_plugin_descriptor(factory, i);
        struct clap_session *s = clap_open(strchr(d->id, '.') + 1, i % 2);
        check(s->params->count(s->plugin) > 0, "%s has no parameter", d->id);
        clap_close(s);
    }
    check_scan(files, start);
}

static void descriptors_are_complete(const char *backend)
{
    const clap_plugin_factory_t *factory = clap_factory();
    for (uint32_t i = 0; i < N_VARIANTS; i++) {
        const clap_plugin_descriptor_t *d = factory->get_plugin_descriptor(factory, i);
        check(d && clap_version_is_compatible(d->clap_version), "descriptor %u", i);
        check(strncmp(d->id, "haloconv.", 9) == 0 && strcmp(d->id + 9, variants[i].symbol) == 0, "id %s", d->id);
        check(strcmp(d->name, variants[i].name) == 0 && d->vendor[0] && d->version[0] && d->description[0],
              "%s: a field is blank", d->id);
        check(d->url && d->manual_url && d->support_url, "%s: an address is NULL", d->id);
        int n_effect = 0, n = 0;
        for (; d->features[n]; n++) {
            n_effect += strcmp(d->features[n], CLAP_PLUGIN_FEATURE_AUDIO_EFFECT) == 0;
            for (int k = 0; k < n; k++)
                check(strcmp(d->features[k], d->features[n]) != 0, "%s: a feature twice", d->id);
        }
        check(n_effect == 1 && n > 1, "%s: %d features", d->id, n);
    }
}

static void the_factory_refuses_what_it_does_not_have(const char *backend)
{
    const clap_plugin_factory_t *factory = clap_factory();
    clap_host_t host = {.clap_version = CLAP_VERSION_INIT}, old = {.clap_version = {0, 9, 0}};
    const char *id = factory->get_plugin_descriptor(factory, 0)->id;
    check(!factory->get_plugin_descriptor(factory, N_VARIANTS) && !factory->get_plugin_descriptor(factory, UINT32_MAX),
          "a descriptor beyond the last one");
    check(!factory->create_plugin(factory, &host, "haloconv.none") && !factory->create_plugin(factory, &host, "") &&
              !factory->create_plugin(factory, &host, NULL) && !factory->create_plugin(factory, NULL, id) &&
              !factory->create_plugin(factory, &old, id),
          "a plugin that the factory does not have, or for no host");
    check(!clap_library()->get_factory("clap.none") && !clap_library()->get_factory(NULL), "an unknown factory");
    const clap_plugin_t *never_used = factory->create_plugin(factory, &host, id);
    check(never_used && !never_used->get_extension(never_used, "clap.none") &&
              !never_used->get_extension(never_used, NULL),
          "an unknown extension");
    never_used->destroy(never_used); /* before init */
}

static void ports_are_those_of_the_variant(const char *backend)
{
    for (int v = 0; v < N_VARIANTS; v++) {
        struct clap_session *s = clap_open(variants[v].symbol, true);
        for (int is_input = 0; is_input < 2; is_input++) {
            clap_audio_port_info_t info;
            int n = is_input ? variants[v].n_in : variants[v].n_out;
            check(s->ports->count(s->plugin, is_input) == 1 && s->ports->get(s->plugin, 0, is_input, &info),
                  "%s: ports", variants[v].symbol);
            check(info.channel_count == (uint32_t)n && info.flags & CLAP_AUDIO_PORT_IS_MAIN &&
                      info.flags & CLAP_AUDIO_PORT_SUPPORTS_64BITS && info.name[0],
                  "%s: %u channels, flags %u", variants[v].symbol, info.channel_count, info.flags);
            check((info.in_place_pair == CLAP_INVALID_ID) == (variants[v].n_in != variants[v].n_out),
                  "%s: the pair of the port", variants[v].symbol);
            const char *kind = n == 1 ? CLAP_PORT_MONO : n == 2 ? CLAP_PORT_STEREO : NULL;
            check(kind ? strcmp(info.port_type, kind) == 0 : !info.port_type, "%s: the kind of the port",
                  variants[v].symbol);
            check(!s->ports->get(s->plugin, 1, is_input, &info), "%s: a second port", variants[v].symbol);
        }
        const clap_plugin_latency_t *latency = s->plugin->get_extension(s->plugin, CLAP_EXT_LATENCY);
        check(latency && latency->get(s->plugin) == 0, "%s: a latency", variants[v].symbol);
        check(!s->render->has_hard_realtime_requirement(s->plugin) && !s->render->set(s->plugin, 7), "render");
        clap_close(s);
    }
}

/* Plugin in `file` of a folder; the log of its first load has this text. */
static void check_found(const char *folder, const char *file, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    check(clap_library()->init(path), "init(%s)", path);
    struct take t = take_open("stereo", 64, 64);
    const char *log = clap_log(t.s);
    check(strstr(log, text), "%s: the log lacks \"%s\": %s", path, text, log);
    take_close(&t);
    check(clap_library()->init(clap_file()), "init(%s)", clap_file());
}

static void masks_are_found_from_where_the_plugin_is(const char *backend)
{
    char folder[4096], command[20000], want[4200];
    const char *file = mask_file("x.wav", 1, 1, RATE, 1);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(file, '/') - file), file);
    snprintf(command, sizeof command,
             "cd %s && mkdir -p clap lv2 1/2/3/4/5/6 1/2/3/4/5/7 && ln -s %s lv2/haloconv.lv2 && ln -s %s 1/2/3/4/5/6/",
             folder, shipped(""), clap_file());
    check(system(command) == 0, "%s", command);
    snprintf(want, sizeof want, "%s/lv2/haloconv.lv2/hall.wav: loaded", folder);
    check_found(folder, "clap/haloconv.clap", want);
    snprintf(want, sizeof want, "%s: loaded", shipped("hall.wav")); /* where the link leads to */
    check_found(folder, "1/2/3/4/5/6/haloconv.clap", want);
    char *home = strdup(getenv("HOME") ? getenv("HOME") : "/");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", folder, 1); /* where it unpacks its own */
    snprintf(want, sizeof want, "%s/.cache/haloconv/masks-", folder);
    for (int i = 0; i < 2 && access(shipped("../masks.tar"), F_OK) == 0; i++) /* without PLUGIN_MASKS=0 */
        check_found(folder, "1/2/3/4/5/7/haloconv.clap", i ? "/hall.wav: loaded" : want);
    unsetenv("HOME");
    check_found(folder, "1/2/3/4/5/7/haloconv.clap", "warning: the sound passes dry");
    setenv("HOME", home, 1);
    free(home);
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static void every_plugin_plays_its_mask(const char *backend)
{
    for (int v = 0; v < N_VARIANTS; v++)
        for (int way = 0; way < 4; way++) { /* in place and not, 32 and 64 bits */
            if (variants[v].n_sources > 0 || (way % 2 && variants[v].n_in != variants[v].n_out)) continue;
            struct take t = take_open(variants[v].symbol, SANITIZED ? 3000 : 9000, 128);
            t.in_place = way % 2, t.is_double = way / 2;
            play_random_blocks(take_play, &t, t.cap / 2, 700, 1);
            play_random_blocks(take_play, &t, t.cap - t.n, 5, 2);
            check_mix(&t, shipped(variants[v].mask), wet_only, 0, 0);
            take_close(&t);
        }
}

static void any_block(const char *backend)
{
    static const int blocks[] = {1, 2, 63, 64, 65, 441, 1024, 8192};
    const char *mask = mask_file("four.wav", 4, 9000, RATE, 3);
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
        for (int is_double = 0; is_double < 2; is_double++) {
            struct take t = take_open("true_stereo", 16384, (uint32_t)blocks[7 - b]); /* the host announces another */
            t.in_place = b % 2, t.is_double = is_double;
            clap_deactivate(t.s);
            load_file(&t, mask);
            clap_activate(t.s, RATE, (uint32_t)blocks[7 - b]);
            for (int i = 0; i < 3000 && t.n + blocks[b] <= t.cap; i++) take_play(&t, blocks[b]);
            clap_await_presets(t.s, 1);
            check(t.s->n_loaded == 1, "the host is not told of the mask");
            check_mix(&t, mask, wet_only, 0, 0);
            take_close(&t);
        }
}

static void another_rate_or_block_plays_the_same_mask(const char *backend)
{
    static const int rates[] = {44100, 96000, 22050, 22050, 48000}, blocks[] = {64, 512, 300, 1, 4096};
    const char *mask = mask_file("rates.wav", 2, 3000, RATE, 9);
    struct take t = take_open("stereo", 60000, 64);
    load_file(&t, mask);
    take_play(&t, 64);
    for (int i = 0; i < 5; i++) {
        if (i == 2) mask = mask_file("newer.wav", 2, 200000, RATE, 10);
        if (i == 2) load_file(&t, mask); /* the loader has no time for it */
        clap_deactivate(t.s);
        t.rate = rates[i];
        clap_activate(t.s, t.rate, (uint32_t)blocks[i]);
        int from = t.n;
        play_random_blocks(take_play, &t, 8000, 600, 3);
        check_mix(&t, mask, wet_only, from, from);
    }
    take_close(&t);
}

static void reset_forgets(const char *backend)
{
    struct take t = take_open("stereo", 20000, 64);
    play_random_blocks(take_play, &t, 5000, 300, 1);
    for (int i = 0; i < 2; i++) {
        int from = t.n;
        clap_reset(t.s);
        play_random_blocks(take_play, &t, 5000, 300, 2);
        check_mix(&t, shipped("hall.wav"), wet_only, from, from);
    }
    take_close(&t);
}

static void reset_forgets_while_a_mask_is_loaded(const char *backend)
{
    struct take t = take_open("mono", 30000, 64);
    double give_up = now_s() + 60;
    play_random_blocks(take_play, &t, 5000, 300, 1);
    clap_set_offline(t.s, false);
    clap_caught(t.s); /* from now on blocks and resets are trapped */
    clap_log(t.s);
    atomic_store(&t.s->n_logs_allowed, 0);
    check(t.s->presets->from_location(t.s->plugin, MORE_LOCATION_FILE, shipped("hall.wav"), NULL), "hall.wav");
    while (!strstr(clap_log(t.s), "left channel")) {
        check(now_s() < give_up, "the file is not loaded");
        pause_us(200);
    }
    for (int i = 0; i < 2; i++) {
        int from = t.n;
        clap_reset(t.s);
        play_random_blocks(take_play, &t, 5000, 300, 2);
        check_mix(&t, shipped("cabinet.wav"), wet_only, from, from);
    }
    int from = t.n;
    clap_reset(t.s); /* the engine that is made before the next block has the earlier input */
    atomic_store(&t.s->n_logs_allowed, MAX_LOGS);
    clap_await_presets(t.s, 1);
    play_random_blocks(take_play, &t, 3000, 300, 2);
    const char *caught = clap_caught(t.s);
    check(!caught, "the audio thread calls %s", caught);
    int there = t.n;
    play_random_blocks(take_play, &t, 3000, 300, 3);
    check_mix(&t, shipped("hall.wav"), wet_only, from, there);
    take_close(&t);
}

static void values_change_at_their_frame(const char *backend)
{
    enum { N = 4096, AT = 1234, THEN = 3001 };
    struct take one = take_open("stereo", N, N), two = take_open("stereo", N, N);
    clap_set(one.s, WET, -20, AT);
    clap_modulate(one.s, DRY, 84, AT);
    clap_set(one.s, PREDELAY, 7, THEN);
    clap_set(one.s, ENABLED, 1, N + 5); /* the bypass; later than the block */
    take_play(&one, N);
    take_play(&two, AT);
    clap_set(two.s, WET, -20, 0);
    clap_modulate(two.s, DRY, 84, 0);
    take_play(&two, THEN - AT);
    clap_set(two.s, PREDELAY, 7, 0);
    take_play(&two, N - THEN);
    for (int ch = 0; ch < 2; ch++)
        for (int i = 0; i < N; i++)
            check(fabsf(one.out[ch][i] - two.out[ch][i]) < 1e-6f, "channel %d, frame %d: %g with events, %g cut there",
                  ch, i, (double)one.out[ch][i], (double)two.out[ch][i]);
    double value;
    check(one.s->params->get_value(one.s->plugin, control_id(DRY), &value) && value == -90,
          "a modulation changes the value to %g", value);
    check(one.s->params->get_value(one.s->plugin, control_id(ENABLED), &value) && value == 1, "bypass is %g", value);
    take_close(&one), take_close(&two);
}

static void controls_mix_and_bypass_is_the_input(const char *backend)
{
    const char *mask = mask_file("mix.wav", 2, 3000, RATE, 8);
    struct take t = take_open("stereo", 60000, 256);
    load_file(&t, mask);
    clap_set(t.s, WET, -6, 0);
    clap_set(t.s, DRY, -20, 0);
    clap_set(t.s, GAIN, 3, 0);
    clap_modulate(t.s, GAIN, -1, 0);
    clap_set(t.s, PREDELAY, 10, 0);
    play_random_blocks(take_play, &t, 20000, 512, 4);
    double gain = pow(10, 2.0 / 20);
    check_mix(&t, mask, (struct mix){gain * pow(10, -1), gain * pow(10, -6.0 / 20), 480}, 0, 10000);
    clap_set(t.s, ENABLED, 1, 0);
    play_random_blocks(take_play, &t, 4000, 512, 5);
    int from = t.n;
    play_random_blocks(take_play, &t, 4000, 512, 6);
    for (int ch = 0; ch < 2; ch++)
        for (int i = from; i < t.n; i++)
            check(t.out[ch][i] == t.in[ch][i], "bypassed, channel %d, frame %d: got %g, want %g", ch, i,
                  (double)t.out[ch][i], (double)t.in[ch][i]);
    take_close(&t);
}

static void a_plugin_sleeps_when_its_tail_has_ended(const char *backend)
{
    enum { SOUND = 1000, TAPS = 20000 };
    const char *mask = mask_file("tail.wav", 2, TAPS, RATE, 10);
    struct take t = take_open("stereo", 120000, 256);
    load_file(&t, mask);
    for (int ch = 0; ch < 2; ch++) memset(t.in[ch] + SOUND, 0, (size_t)(t.cap - SOUND) * sizeof(float));
    clap_set(t.s, PREDELAY, 50, 0);
    while (t.n < SOUND + TAPS) {
        take_play(&t, 250);
        check(t.status == CLAP_PROCESS_CONTINUE, "status %d at frame %d", t.status, t.n);
    }
    uint32_t tail = t.s->tail->get(t.s->plugin);
    check(tail >= TAPS + 2400 && tail < TAPS + 2400 + 1000, "a tail of %u frames", tail);
    while (t.status == CLAP_PROCESS_CONTINUE) take_play(&t, 250);
    check(t.status == CLAP_PROCESS_SLEEP, "status %d", t.status);
    int slept = t.n;
    take_play(&t, 10000);
    check(t.status == CLAP_PROCESS_SLEEP, "status %d", t.status);
    for (int i = slept - 250; i < t.n; i++) check(t.out[0][i] == 0, "frame %d is %g", i, (double)t.out[0][i]);
    t.in[0][t.n + 100] = 1;
    take_play(&t, 250);
    check(t.status == CLAP_PROCESS_CONTINUE, "status %d with sound", t.status);
    take_close(&t);
}

static void what_is_missing_is_refused(const char *backend)
{
    static float channel[4][64];
    float *two[] = {channel[0], channel[1]}, *hole[] = {channel[2], NULL};
    struct clap_session *s = clap_open("stereo", true);
    const clap_audio_buffer_t good = {.data32 = two, .channel_count = 2};
    clap_audio_buffer_t out = {.data32 = two, .channel_count = 2};
    clap_process_t whole = {.frames_count = 64,
                            .audio_inputs = &good,
                            .audio_outputs = &out,
                            .audio_inputs_count = 1,
                            .audio_outputs_count = 1};
    check(clap_process_block(s, &whole) == CLAP_PROCESS_ERROR, "a block before activate");
    clap_activate(s, RATE, 64);
    check(clap_process_block(s, &whole) != CLAP_PROCESS_ERROR, "a whole block is refused");
    clap_audio_buffer_t bad[] = {{.channel_count = 2},
                                 {.data32 = two, .channel_count = 1},
                                 {.data32 = two, .channel_count = 3},
                                 {.data32 = hole, .channel_count = 2},
                                 {.data64 = (double **)(void *)hole, .channel_count = 2}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        clap_process_t block = whole;
        block.audio_inputs = &bad[i];
        check(clap_process_block(s, &block) == CLAP_PROCESS_ERROR, "input %zu", i);
        block = whole;
        block.audio_outputs = &bad[i];
        check(clap_process_block(s, &block) == CLAP_PROCESS_ERROR, "output %zu", i);
    }
    for (uint32_t n = 0; n < 3; n += 2) {
        clap_process_t block = whole;
        block.audio_inputs_count = n;
        check(clap_process_block(s, &block) == CLAP_PROCESS_ERROR, "%u input ports", n);
    }
    check(clap_process_block(s, &(clap_process_t){.audio_inputs = NULL}) != CLAP_PROCESS_ERROR, "a block of 0 frames");
    check(clap_process_block(s, NULL) == CLAP_PROCESS_ERROR, "NULL");
    clap_close(s);
}

static void calls_in_a_wrong_order_do_nothing(const char *backend)
{
    struct clap_session *s = clap_open("mono", false);
    const clap_plugin_t *p = s->plugin;
    p->deactivate(p);
    p->reset(p);
    check(!p->start_processing(p), "start_processing of an inactive plugin");
    p->stop_processing(p);
    check(!p->activate(p, RATE, 8, 4) && !p->activate(p, 0, 1, 64) && !p->activate(p, NAN, 1, 64) &&
              !p->activate(p, 1e12, 1, 64) && !p->activate(p, RATE, 0, 0),
          "a rate or block that cannot be");
    check(p->activate(p, RATE, 1, UINT32_MAX), "a host of any block");
    check(!p->activate(p, RATE, 1, 64), "activated twice");
    p->deactivate(p);
    p->deactivate(p);
    p->on_main_thread(p);
    check(p->activate(p, RATE, 1, 64), "activated again");
    p->deactivate(p);
    clap_close(s);
}

static void calls_on_a_wrong_thread_are_refused(const char *backend)
{
    char before[STATE_BYTES], after[STATE_BYTES];
    struct clap_session *s = clap_open("stereo", true);
    check(clap_save(s, before, STATE_BYTES), "save");
    clap_be_another_thread(true);
    check(!clap_save(s, after, STATE_BYTES) && !clap_load(s, before, strlen(before), STATE_BYTES) &&
              !s->plugin->activate(s->plugin, RATE, 1, 64) &&
              !s->presets->from_location(s->plugin, MORE_LOCATION_PLUGIN, NULL, "room"),
          "a call outside of the main thread");
    clap_be_another_thread(false);
    check(strstr(clap_log(s), "outside of its main thread"), "the log has no warning");
    check(clap_save(s, after, STATE_BYTES) && strcmp(before, after) == 0, "the state is another: %s", after);
    check(s->plugin->activate(s->plugin, RATE, 1, 64), "activate");
    clap_be_another_thread(true);
    s->plugin->deactivate(s->plugin);
    clap_be_another_thread(false);
    check(strstr(clap_log(s), "deactivate outside of its main thread"), "the log has no warning");
    check(!s->plugin->start_processing(s->plugin), "deactivate is not obeyed");
    clap_close(s);
}

/* ---- parameters --------------------------------------------------------------------------------- */

static void parameters_are_described(const char *backend)
{
    for (int v = 0; v < N_VARIANTS; v++) {
        struct clap_session *s = clap_open(variants[v].symbol, true);
        uint32_t n = s->params->count(s->plugin), n_bypasses = 0;
        clap_param_info_t info[32];
        double value;
        check(n == (variants[v].n_sources > 0 ? 7u : 8u), "%s: %u parameters", variants[v].symbol, n);
        for (uint32_t i = 0; i < n; i++) {
            check(s->params->get_info(s->plugin, i, &info[i]), "parameter %u", i);
            check(info[i].name[0] && info[i].min_value < info[i].max_value &&
                      info[i].default_value >= info[i].min_value && info[i].default_value <= info[i].max_value,
                  "%s: range", info[i].name);
            check(s->params->get_value(s->plugin, info[i].id, &value) && value == info[i].default_value,
                  "%s: %g at first", info[i].name, value);
            bool is_expensive = info[i].id == control_id(BACKEND) || info[i].id == control_id(TRIM);
            bool is_stepped = info[i].flags & CLAP_PARAM_IS_STEPPED;
            check(is_expensive == !(info[i].flags & CLAP_PARAM_IS_AUTOMATABLE), "%s", info[i].name);
            check((is_stepped || is_expensive) == !(info[i].flags & CLAP_PARAM_IS_MODULATABLE), "%s", info[i].name);
            check(!(info[i].flags & CLAP_PARAM_IS_BYPASS) || value == 0, "a new instance is bypassed");
            n_bypasses += info[i].flags & CLAP_PARAM_IS_BYPASS ? 1 : 0;
            for (uint32_t k = 0; k < i; k++) check(info[k].id != info[i].id, "two parameters have one id");
        }
        check(n_bypasses == 1, "%u bypasses", n_bypasses);
        char text[8];
        check(!s->params->get_info(s->plugin, n, &info[0]) && !s->params->get_value(s->plugin, 1, &value) &&
                  !s->params->value_to_text(s->plugin, 1, 0, text, sizeof text) &&
                  !s->params->text_to_value(s->plugin, 1, "0", &value) &&
                  !s->params->get_value(s->plugin, control_id(LOAD), &value),
              "a parameter that is not one");
        clap_close(s);
    }
}

static void check_texts(struct clap_session *s)
{
    struct random r = random_seeded(7);
    clap_param_info_t info;
    for (uint32_t i = 0; s->params->get_info(s->plugin, i, &info); i++)
        for (int k = 0; k < 400; k++) {
            char text[64], again[64];
            double x = info.min_value + (info.max_value - info.min_value) * random_int(&r, 0, 9999) / 9999, back, third;
            if (k < 4) x = (const double[]){info.min_value, info.max_value, info.min_value + 0.04, -0.04}[k];
            if (x < info.min_value) x = info.min_value;
            if (info.flags & CLAP_PARAM_IS_STEPPED) x = rint(x);
            check(s->params->value_to_text(s->plugin, info.id, x, text, sizeof text) && text[0], "%s", info.name);
            check(s->params->text_to_value(s->plugin, info.id, text, &back), "%s: %s is no value", info.name, text);
            check(fabs(back - x) <= 0.0501 + 1e-6 * fabs(x), "%s: %g is %s, which is %g", info.name, x, text, back);
            check(s->params->value_to_text(s->plugin, info.id, back, again, sizeof again) && !strcmp(text, again),
                  "%s: %s becomes %s", info.name, text, again);
            check(!strchr(text, ',') && strncmp(text, "-0.0", 4) != 0, "%s", text);
            if (!(info.flags & CLAP_PARAM_IS_STEPPED)) /* without its unit */
                check(
                    (text[strcspn(text, " \302")] = '\0', s->params->text_to_value(s->plugin, info.id, text, &third)) &&
                        third == back,
                    "%s: %s", info.name, text);
        }
}

static void texts_and_values_agree(const char *backend)
{
    struct clap_session *s = clap_open("stereo", true), *head = clap_open("binaural", true);
    check_texts(s);
    check_texts(head);
    static const struct {
        enum control control;
        const char *text;
        double value;
    } reads[] = {{WET, "-6", -6},           {WET, " -6 DB", -6}, {WET, "-inf dB", -90}, {WET, "400", 12},
                 {BACKEND, "gpu", 2},       {BACKEND, "1", 1},   {ENABLED, "on", 1},    {ENABLED, "Off", 0},
                 {PREDELAY, "10ms", 10},    {A_B, "b", 1},       {TRIM, "60 dB", 60},   {TRIM, "inf dB", NO_TRIM_DB},
                 {TRIM, "off", NO_TRIM_DB}, {WET, "off", -90}};
    double value;
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
        check(s->params->text_to_value(s->plugin, control_id(reads[i].control), reads[i].text, &value) &&
                  value == reads[i].value,
              "%s is %g", reads[i].text, value);
    char text[64];
    for (size_t i = sizeof reads / sizeof *reads - 2; i < sizeof reads / sizeof *reads; i++)
        check(s->params->value_to_text(s->plugin, control_id(reads[i].control), reads[i].value, text, sizeof text) &&
                  strcmp(text, "Off") == 0,
              "%g is \"%s\"", reads[i].value, text);
    static const char *const bad[] = {"", "loud", "nan", "1 s", "3 dB extra", "--1", "0x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(!s->params->text_to_value(s->plugin, control_id(WET), bad[i], &value), "\"%s\" is %g", bad[i], value);
    clap_close(s), clap_close(head);
}

static void a_decimal_comma_of_the_host_changes_no_text(const char *backend)
{
    static const char state[] = "haloconv plugin 1\nvariant stereo\nwet -7.5\nend\n";
    char folder[4096], command[9000], text[STATE_BYTES];
    const char *file = text_file("x.txt", "1");
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(file, '/') - file), file);
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >%s 2>&1", folder, file);
    if (system(command) != 0) check_skip("localedef makes no locale with a decimal comma");
    setenv("LOCPATH", folder, 1);
    check(setlocale(LC_ALL, "de_DE.UTF-8") && localeconv()->decimal_point[0] == ',', "no decimal comma");
    struct clap_session *s = clap_open("stereo", true);
    check_texts(s);
    check(clap_load(s, state, strlen(state), STATE_BYTES) && clap_save(s, text, STATE_BYTES), "the state is refused");
    check(strstr(text, "\nwet -7.5\n"), "%s", text);
    clap_close(s);
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
}

static void values_are_limited_and_flushed(const char *backend)
{
    static const double given[] = {1e30, -1e30, NAN, -3, INFINITY}, kept[] = {12, -90, -90, -3, 12};
    struct take t = take_open("stereo", 1000, 64);
    double value;
    for (int i = 0; i < 10; i++) {
        if (i == 5) clap_deactivate(t.s);
        clap_set(t.s, WET, given[i % 5], 0);
        clap_set(t.s, LOAD, 50, 0); /* not a parameter */
        t.s->params->flush(t.s->plugin, clap_events(t.s), NULL);
        check(t.s->params->get_value(t.s->plugin, control_id(WET), &value) && value == kept[i % 5], "%g became %g",
              given[i % 5], value);
    }
    t.s->params->flush(t.s->plugin, NULL, NULL);
    clap_event_param_value_t e = {.header = {sizeof e, 0, 77, CLAP_EVENT_PARAM_VALUE, 0}, .param_id = control_id(WET)};
    clap_send(t.s, &e.header); /* another space */
    e.header = (clap_event_header_t){sizeof e.header, 0, CLAP_CORE_EVENT_SPACE_ID, CLAP_EVENT_PARAM_VALUE, 0};
    clap_send(t.s, &e.header); /* cut */
    t.s->params->flush(t.s->plugin, clap_events(t.s), NULL);
    check(t.s->params->get_value(t.s->plugin, control_id(WET), &value) && value == 12, "a foreign event sets %g",
          value);
    take_close(&t);
}

/* ---- states ------------------------------------------------------------------------------------- */

static void set_random(struct clap_session *s, struct random *r)
{
    for (int c = 0; c < N_CONTROLS; c++)
        if (variant_has_setting(s->variant, c))
            clap_set(
                s, c,
                (double)controls[c].min + (double)(controls[c].max - controls[c].min) * random_int(r, 0, 999) / 999, 0);
    s->params->flush(s->plugin, clap_events(s), NULL);
}

static void states_come_back(const char *backend)
{
    static const size_t chunks[] = {STATE_BYTES, 1, 7, 100};
    const char *mask = mask_file("state \\ \n.wav", 2, 500, RATE, 12);
    struct random r = random_seeded(3);
    for (int i = 0; i < 16; i++) {
        char text[STATE_BYTES], again[STATE_BYTES];
        struct clap_session *a = clap_open(i % 4 == 3 ? "binaural" : "stereo", true),
                            *b = clap_open(a->variant->symbol, i % 2);
        set_random(a, &r);
        if (i % 4 == 1) a->presets->from_location(a->plugin, MORE_LOCATION_FILE, mask, NULL);
        check(clap_save(a, text, chunks[i / 4]), "save");
        check(clap_load(b, text, strlen(text), chunks[i / 4]), "load: %s", clap_log(b));
        check(b->n_rescans == i % 2, "%d rescans", b->n_rescans);
        check(clap_save(b, again, STATE_BYTES) && strcmp(text, again) == 0, "%s became %s", text, again);
        check((i % 4 == 1) == (strstr(text, "\nmask") != NULL), "%s", text);
        clap_param_info_t info;
        for (uint32_t k = 0; a->params->get_info(a->plugin, k, &info); k++) {
            double x, y;
            check(a->params->get_value(a->plugin, info.id, &x) && b->params->get_value(b->plugin, info.id, &y) &&
                      x == y,
                  "%s: %g and %g", info.name, x, y);
        }
        clap_close(a), clap_close(b);
    }
}

static void a_state_plays_while_active_and_before(const char *backend)
{
    const char *mask = mask_file("saved.wav", 2, 5000, RATE, 12);
    char text[STATE_BYTES];
    struct take a = take_open("stereo", 1000, 64);
    load_file(&a, mask);
    clap_set(a.s, GAIN, -6, 0);
    take_play(&a, 64);
    check(clap_save(a.s, text, STATE_BYTES), "save");
    take_close(&a);
    for (int is_active = 0; is_active < 2; is_active++) {
        struct take b = take_open("stereo", 20000, 64);
        take_play(&b, 500);
        if (!is_active) clap_deactivate(b.s);
        check(clap_load(b.s, text, strlen(text), STATE_BYTES) && b.s->n_rescans == 1, "load");
        if (!is_active) clap_activate(b.s, RATE, 64);
        play_random_blocks(take_play, &b, 4000, 300, 1);
        int from = b.n;
        play_random_blocks(take_play, &b, 4000, 300, 2);
        check_mix(&b, mask, (struct mix){0, pow(10, -6.0 / 20), 0}, is_active ? 0 : 500, from);
        take_close(&b);
    }
}

static void refuse_state(struct clap_session *s, const char *text, size_t length, const char *what)
{
    char before[STATE_BYTES], after[STATE_BYTES];
    check(clap_save(s, before, STATE_BYTES), "save");
    check(!clap_load(s, text, length, STATE_BYTES), "%s: loaded: %.*s", what, (int)length, text);
    check(strstr(clap_log(s), "error: the state of the plugin "), "%s: the log has no reason", what);
    check(clap_save(s, after, STATE_BYTES) && strcmp(before, after) == 0, "%s: changes %s", what, after);
}

static void cut_and_hostile_states_change_nothing(const char *backend)
{
    char text[STATE_BYTES], head[STATE_BYTES];
    struct random r = random_seeded(4);
    struct clap_session *s = clap_open("stereo", true), *other = clap_open("binaural", true);
    set_random(s, &r);
    check(clap_save(s, text, STATE_BYTES), "save");
    clap_set(s, WET, -11, 0);
    s->params->flush(s->plugin, clap_events(s), NULL);
    for (size_t n = 0; n < strlen(text); n++) refuse_state(s, text, n, "cut");
    static const char *const bad[] = {"haloconv plugin 0\nend\n",
                                      "haloconv plugin 1x\nend\n",
                                      "haloconv plugin\nend\n",
                                      "end\n",
                                      "haloconv plugin 1\nend\nend\n",
                                      "haloconv plugin 1\nwet loud\nend\n",
                                      "haloconv plugin 1\nwet nan\nend\n",
                                      "haloconv plugin 1\nwet 1 2\nend\n",
                                      "haloconv plugin 1\nwet\nend\n",
                                      "haloconv plugin 1\nmask \nend\n",
                                      "haloconv plugin 1\nmask /a\\x0\nend\n",
                                      "haloconv plugin 1\nmask /a\\x00b\nend\n",
                                      "haloconv plugin 1\nmask /a\\n\nend\n",
                                      "haloconv plugin 1\nmask /a\\\nend\n",
                                      "haloconv plugin 1\nshipped ../../etc/passwd\nend\n",
                                      "haloconv plugin 1\nshipped ..\nend\n",
                                      "haloconv plugin 1\nshipped_b ../../etc/passwd\nend\n",
                                      "haloconv plugin 1\nshipped_b \nend\n",
                                      "haloconv plugin 1\nmask_b \nend\n",
                                      "haloconv plugin 1\nmask_b /a\\x00b\nend\n",
                                      "haloconv plugin 1\ntrim off\nend\n",
                                      "haloconv plugin 1\nab B\nend\n",
                                      "haloconv plugin 1\nvariant none\nend\n",
                                      "haloconv plugin 1\nvariant binaural\nend\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuse_state(s, bad[i], strlen(bad[i]), "bad");
    refuse_state(s, "haloconv plugin 1\n\0\nend\n", 24, "a final 0");
    check(clap_save(other, text, STATE_BYTES), "save");
    refuse_state(s, text, strlen(text), "another kind of plugin");
    int n = snprintf(head, sizeof head, "haloconv plugin 1\nmask /%05000d\nend\n", 7);
    refuse_state(s, head, (size_t)n, "a long path");
    memset(text, 'x', sizeof text);
    refuse_state(s, text, sizeof text, "a long text");
    clap_close(s), clap_close(other);
}

/* Any bytes: the values stay in their ranges, and what was read can be saved and read again. */
static void changed_states_are_read_or_refused(const char *backend)
{
    char text[STATE_BYTES], changed[STATE_BYTES], again[STATE_BYTES];
    struct random r = random_seeded(6);
    struct clap_session *s = clap_open("stereo", true);
    check(clap_save(s, text, STATE_BYTES), "save");
    for (int i = 0, n_read = 0; i < 4000 || n_read < 10; i++) {
        size_t length = strlen(text);
        memcpy(changed, text, length);
        for (int k = random_int(&r, 1, 3); k > 0; k--)
            changed[random_int(&r, 18, (int)length - 1)] = (char)random_int(&r, k % 2 ? 32 : 0, k % 2 ? 126 : 255);
        if (!clap_load(s, changed, length, STATE_BYTES)) continue;
        n_read++;
        clap_param_info_t info;
        for (uint32_t k = 0; s->params->get_info(s->plugin, k, &info); k++) {
            double x;
            check(s->params->get_value(s->plugin, info.id, &x) && x >= info.min_value && x <= info.max_value, "%s: %g",
                  info.name, x);
        }
        check(clap_save(s, changed, STATE_BYTES) && clap_load(s, changed, strlen(changed), STATE_BYTES) &&
                  clap_save(s, again, STATE_BYTES) && strcmp(changed, again) == 0,
              "%s became %s", changed, again);
        if (i % 512 == 0) clap_log(s);
    }
    clap_close(s);
}

static void a_state_of_the_future_is_read(const char *backend)
{
    static const char text[] = "haloconv plugin 12\nvariant mono_to_stereo\ncolour blue\nwet -7.5\nfreewheel 1\n\n"
                               "load x\ngain 1e99\nshipped room.wav\nend\n";
    struct clap_session *s = clap_open("stereo", true);
    clap_set(s, DRY, 0, 0);
    s->params->flush(s->plugin, clap_events(s), NULL);
    char again[STATE_BYTES];
    check(clap_load(s, text, strlen(text), STATE_BYTES), "%s", clap_log(s));
    check(clap_save(s, again, STATE_BYTES) &&
              !strcmp(again,
                      "haloconv plugin 1\nvariant stereo\nshipped room.wav\ndry -90\nwet -7.5\ngain 24\npredelay 0\n"
                      "enabled 1\nbackend 0\ntrim 150\nab 0\nend\n"),
          "%s", again);
    clap_close(s);
}

/* Another mask, or silence, would not be the sound of the session; the state keeps the path. */
static void a_lost_mask_passes_dry_sound(const char *backend)
{
    static const char text[] = "haloconv plugin 1\nmask /nonexistent/gone.wav\nend\n";
    for (int is_active = 0; is_active < 2; is_active++) {
        char again[STATE_BYTES];
        struct take t = take_open("stereo", 60000, 64);
        take_play(&t, 500);
        if (!is_active) clap_deactivate(t.s);
        check(clap_load(t.s, text, strlen(text), STATE_BYTES), "load");
        if (!is_active) clap_activate(t.s, RATE, 64);
        take_play(&t, 4000);
        check(strstr(clap_log(t.s), "warning: the sound passes dry"), "the log has no warning");
        int from = t.n;
        take_play(&t, 4000);
        for (int i = from; i < t.n; i++)
            check(t.out[1][i] == t.in[1][i], "frame %d: got %g, want %g", i, (double)t.out[1][i], (double)t.in[1][i]);
        check(clap_save(t.s, again, STATE_BYTES) && strstr(again, "\nmask /nonexistent/gone.wav\n"), "%s", again);
        check(t.s->presets->from_location(t.s->plugin, MORE_LOCATION_PLUGIN, NULL, "room"), "room");
        take_play(&t, 4000);
        from = t.n;
        take_play(&t, 4000);
        check_mix(&t, shipped("room.wav"), wet_only, is_active ? 0 : 500, from);
        take_close(&t);
    }
}

/* ---- presets ------------------------------------------------------------------------------------ */

static void presets_load_mask_and_gains(const char *backend)
{
    for (int is_active = 0; is_active < 2; is_active++)
        for (int i = 0; i < N_PRESETS; i++) {
            const struct plugin_preset *p = &plugin_presets[i];
            const double dry_db = (double)p->values[0], wet_db = (double)p->values[1],
                         predelay_ms = (double)p->values[2];
            struct take t = take_open("stereo", 16000, 256);
            if (!is_active) clap_deactivate(t.s);
            check(t.s->presets->from_location(t.s->plugin, MORE_LOCATION_PLUGIN, NULL, p->symbol), "%s", p->symbol);
            if (!is_active) clap_activate(t.s, RATE, 256);
            play_random_blocks(take_play, &t, 8000, 300, 1);
            int from = t.n;
            play_random_blocks(take_play, &t, 4000, 300, 2);
            clap_await_presets(t.s, 1);
            check(t.s->n_loaded == 1 && t.s->n_rescans == 1, "%s: %d loaded, %d rescans", p->symbol, t.s->n_loaded,
                  t.s->n_rescans);
            check_mix(&t, shipped(p->file),
                      (struct mix){dry_db <= -90 ? 0 : pow(10, dry_db / 20), pow(10, wet_db / 20),
                                   (int)rint(predelay_ms * RATE / 1000)},
                      0, from);
            take_close(&t);
        }
}

static void a_preset_that_cannot_be_loaded_is_reported(const char *backend)
{
    const char *broken = text_file("broken.txt", "1\nnan\n");
    struct take t = take_open("mono", 8000, 64);
    const struct {
        uint32_t kind;
        const char *location, *key;
        bool is_asked;
    } bad[] = {{MORE_LOCATION_PLUGIN, NULL, "none", false},
               {MORE_LOCATION_PLUGIN, NULL, NULL, false},
               {MORE_LOCATION_PLUGIN, NULL, "chamber", false}, /* four channels */
               {MORE_LOCATION_FILE, "/nonexistent/mask.wav", NULL, false},
               {MORE_LOCATION_FILE, NULL, NULL, false},
               {99, "x", NULL, false},
               {MORE_LOCATION_FILE, broken, NULL, true}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int before = t.s->n_errors;
        check(t.s->presets->from_location(t.s->plugin, bad[i].kind, bad[i].location, bad[i].key) == bad[i].is_asked,
              "preset %zu", i);
        if (bad[i].is_asked) clap_await_presets(t.s, before + 1);
        check(t.s->n_errors == before + 1 && t.s->error[0] && t.s->n_loaded == 0, "preset %zu: not reported", i);
    }
    check(strstr(t.s->error, "broken.txt"), "%s", t.s->error);
    play_random_blocks(take_play, &t, 4000, 100, 1);
    check_mix(&t, shipped("cabinet.wav"), wet_only, 0, 0);
    take_close(&t);
}

static void check_answers(const struct clap_session *s, int n, const char *last)
{
    check(s->n_loaded + s->n_errors == n && strcmp(s->last, last) == 0, "%d answers, the last for %s; want %d, %s",
          s->n_loaded + s->n_errors, s->last, n, last);
}

/* Each request has one answer, also if another comes before the end of its load. */
static void a_preset_is_answered_when_its_own_load_ends(const char *backend)
{
    struct take t = take_open("mono", 8000, 64);
    const char *other = text_file("other.txt", "1\n0.5\n");
    double give_up = now_s() + 60;
    clap_log(t.s);
    atomic_store(&t.s->n_logs_allowed, 0);
    check(t.s->presets->from_location(t.s->plugin, MORE_LOCATION_FILE, other, NULL), "%s", other);
    while (!strstr(clap_log(t.s), "other.txt")) {
        check(now_s() < give_up, "the file is not loaded");
        pause_us(200);
    }
    check(t.s->presets->from_location(t.s->plugin, MORE_LOCATION_PLUGIN, NULL, "cabinet"), "the first preset");
    check_answers(t.s, 1, other);
    check(t.s->presets->from_location(t.s->plugin, MORE_LOCATION_PLUGIN, NULL, "spring"), "the second preset");
    check_answers(t.s, 2, "cabinet");
    check(t.s->n_loaded < 2, "cabinet, which was not loaded, counts as loaded");
    check(!t.s->presets->from_location(t.s->plugin, MORE_LOCATION_FILE, "/nonexistent.wav", NULL), "a missing file");
    check_answers(t.s, 3, "/nonexistent.wav");
    const char *long_key = "a key that is longer than any key of a preset";
    check(!t.s->presets->from_location(t.s->plugin, MORE_LOCATION_PLUGIN, NULL, long_key), "%s", long_key);
    check_answers(t.s, 4, long_key);
    atomic_store(&t.s->n_logs_allowed, MAX_LOGS);
    clap_await_presets(t.s, 5);
    check_answers(t.s, 5, "spring");
    play_random_blocks(take_play, &t, 4000, 100, 1);
    int from = t.n;
    play_random_blocks(take_play, &t, 4000, 100, 1);
    check_mix(&t, shipped("spring.wav"), (struct mix){1, pow(10, -12.0 / 20), 0}, 0, from);
    take_close(&t);
}

struct found {
    int n_presets, n_ids;
    bool is_declared;
};

static bool CLAP_ABI declare_location(const struct more_indexer *indexer, const struct more_location *location)
{
    struct found *f = indexer->indexer_data;
    f->is_declared = location->kind == MORE_LOCATION_PLUGIN && !location->location && location->name[0];
    return true;
}

static bool CLAP_ABI begin_preset(const struct more_metadata_receiver *to, const char *name, const char *key)
{
    struct found *f = to->receiver_data;
    check(name[0] && strcmp(key, plugin_presets[f->n_presets].symbol) == 0, "preset %s, %s", name, key);
    f->n_presets++;
    return true;
}

static void CLAP_ABI add_plugin_id(const struct more_metadata_receiver *to, const struct more_plugin_id *id)
{
    struct found *f = to->receiver_data;
    const clap_plugin_factory_t *factory = clap_factory();
    uint32_t i = 0;
    while (i < N_VARIANTS && strcmp(factory->get_plugin_descriptor(factory, i)->id, id->id) != 0) i++;
    check(i < N_VARIANTS && strcmp(id->abi, "clap") == 0, "a preset for %s", id->id);
    f->n_ids++;
}

static void CLAP_ABI set_flags(const struct more_metadata_receiver *to, uint32_t flags) {}

static void presets_are_discovered(const char *backend)
{
    const struct more_preset_discovery *factory = clap_library()->get_factory(MORE_PRESET_DISCOVERY);
    struct found found = {0};
    const struct more_indexer indexer = {
        .clap_version = CLAP_VERSION_INIT, .indexer_data = &found, .declare_location = declare_location};
    const struct more_metadata_receiver to = {
        .receiver_data = &found, .begin_preset = begin_preset, .add_plugin_id = add_plugin_id, .set_flags = set_flags};
    check(factory && factory->count(factory) == 1 && !factory->get_descriptor(factory, 1), "the factory");
    const char *id = factory->get_descriptor(factory, 0)->id;
    check(!factory->create(factory, &indexer, "none") && !factory->create(factory, NULL, id), "another provider");
    const struct more_provider *provider = factory->create(factory, &indexer, id);
    check(provider && provider->init(provider) && found.is_declared, "the provider");
    check(!provider->get_extension(provider, "clap.none"), "an extension");
    check(!provider->get_metadata(provider, MORE_LOCATION_FILE, "/tmp/x.wav", &to), "presets in a file");
    check(provider->get_metadata(provider, MORE_LOCATION_PLUGIN, NULL, &to), "no presets");
    int n_fitting = 0;
    for (int i = 0; i < N_PRESETS; i++)
        for (int v = 0; v < N_VARIANTS; v++) n_fitting += preset_fits(&plugin_presets[i], &variants[v]);
    check(found.n_presets == N_PRESETS && found.n_ids == n_fitting, "%d presets for %d plugins", found.n_presets,
          found.n_ids);
    provider->destroy(provider);
}

/* ---- real time, many, and long ------------------------------------------------------------------ */

static void masks_come_while_blocks_play(const char *backend)
{
    const char *masks[] = {mask_file("one.wav", 2, 30000, RATE, 15), mask_file("two.wav", 2, 29000, RATE, 16)};
    struct take t = take_open("stereo", 60 * RATE, 64);
    clap_set_offline(t.s, false);
    if (!SANITIZED) check(!clap_caught(t.s), "the trap was set before it was asked for");
    for (int i = 0; i < 8; i++) {
        load_file(&t, masks[i % 2]);
        clap_set(t.s, WET, -i % 5, 10);
        clap_set(t.s, PREDELAY, i % 3, 60);
        clap_set(t.s, BACKEND, i % 3 == 2 ? BACKEND_CPU : BACKEND_AUTO, 0);
        for (double give_up = now_s() + 60; t.s->n_loaded <= i; pause_us(1000)) {
            check(now_s() < give_up && t.n + 64 <= t.cap, "the mask does not come: %s", clap_log(t.s));
            take_play(&t, 64);
        }
        play_random_blocks(take_play, &t, 3000, 300, 17);
        const char *caught = SANITIZED ? NULL : clap_caught(t.s);
        check(!caught, "process() reached %s", caught);
    }
    check(t.s->n_errors == 0, "%s", t.s->error);
    take_close(&t);
}

struct child {
    struct take take;
    int n_blocks;
};

static int play_many(void *arg)
{
    struct child *c = arg;
    for (int i = 0; i < c->n_blocks; i++) take_play(&c->take, 1 + i % 100);
    return 0;
}

static void process_makes_no_system_call(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer makes system calls of its own");
    struct child c = {take_open("stereo", 20000, 64), 200};
    clap_set_offline(c.take.s, false);
    take_play(&c.take, 64);
    for (double end = now_s() + 0.1; now_s() < end; pause_us(1000)) take_play(&c.take, 16); /* the loader is done */
    int fate = trap_child(play_many, &c);
    check(fate == 0, "%s", fate == SIGSYS ? "process() made a system call" : "process() ended the child");
    take_close(&c.take);
}

static void fifty_instances(const char *backend)
{
    enum { N = SANITIZED ? 8 : 50 };
    struct take t[N];
    for (int i = 0; i < N; i++) t[i] = take_open(i % 2 ? "stereo" : "mono_to_stereo", 2000, 64);
    for (int k = 0; k < 30; k++)
        for (int i = 0; i < N; i++) take_play(&t[i], 64);
    for (int i = 0; i < N; i++) {
        check_mix(&t[i], shipped("hall.wav"), wet_only, 0, 0);
        take_close(&t[i]);
    }
}

/* Everything that a host does to a plugin, in random order, and values of any kind. valgrind and the sanitizers find
 * leaks and uses after free; the test checks that the output stays finite. */
static void churn(const char *backend)
{
    struct random r = random_seeded(18);
    const char *masks[] = {mask_file("a.wav", 2, 700, RATE, 19), mask_file("b.wav", 4, 6000, 44100, 20),
                           mask_file("c.wav", 1, 20000, RATE, 21), text_file("d.txt", "no mask\n")};
    int rounds = getenv("HC_TEST_ROUNDS") ? atoi(getenv("HC_TEST_ROUNDS")) : 12;
    for (int round = 0; round < rounds; round++) {
        char state[STATE_BYTES] = "";
        struct take t = take_open(round % 6 == 5 ? "binaural" : round % 3 ? "stereo" : "true_stereo", 200000, 64);
        int n_acts = t.s->variant->n_sources > 0 ? 15 : 60; /* a bank takes 0.3 s to load */
        for (int i = 0; i < n_acts && t.n < t.cap - 9000; i++) {
            int what = random_int(&r, 0, 11), most = t.s->variant->n_in == t.s->variant->n_out;
            t.in_place = most && random_int(&r, 0, 1), t.is_double = random_int(&r, 0, 1);
            if (what < 2)
                t.s->presets->from_location(t.s->plugin, MORE_LOCATION_FILE, masks[random_int(&r, 0, 3)], NULL);
            if (what == 2)
                t.s->presets->from_location(t.s->plugin, MORE_LOCATION_PLUGIN, NULL,
                                            plugin_presets[random_int(&r, 0, N_PRESETS - 1)].symbol);
            if (what == 3) clap_save(t.s, state, (size_t)random_int(&r, 1, 99));
            if (what == 4) clap_load(t.s, state, strlen(state), (size_t)random_int(&r, 1, 99));
            if (what == 5) set_random(t.s, &r);
            if (what == 6) clap_set_offline(t.s, random_int(&r, 0, 1));
            if (what == 7) clap_reset(t.s);
            if (what == 8) {
                clap_deactivate(t.s);
                clap_activate(t.s, random_int(&r, 0, 2) ? RATE : random_int(&r, 8000, 192000),
                              (uint32_t)random_int(&r, 1, 2000));
            }
            for (int k = random_int(&r, 0, 6); k > 0; k--) {
                enum control c = random_int(&r, 0, N_CONTROLS - 1);
                double x = random_int(&r, 0, 9) ? (double)random_sample(&r) * 200 : NAN;
                uint32_t frame = (uint32_t)random_int(&r, 0, 400); /* also unsorted and too late */
                random_int(&r, 0, 1) ? clap_set(t.s, c, x, frame) : clap_modulate(t.s, c, x, frame);
            }
            take_play(&t, what == 10 ? 0 : what == 11 ? random_int(&r, 1, 8192) : random_int(&r, 1, 300));
        }
        for (int ch = 0; ch < 2; ch++)
            for (int i = 0; i < t.n; i++) check(isfinite(t.out[ch][i]), "round %d: frame %d is not finite", round, i);
        take_close(&t); /* in the middle of whatever is under way */
    }
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_scan_is_fast_and_opens_nothing, false),
        TEST(descriptors_are_complete, false),
        TEST(the_factory_refuses_what_it_does_not_have, false),
        TEST(ports_are_those_of_the_variant, false),
        TEST(masks_are_found_from_where_the_plugin_is, false),
        TEST(every_plugin_plays_its_mask, false),
        TEST(any_block, false),
        TEST(another_rate_or_block_plays_the_same_mask, false),
        TEST(reset_forgets, false),
        TEST(reset_forgets_while_a_mask_is_loaded, 0),
        TEST(values_change_at_their_frame, false),
        TEST(controls_mix_and_bypass_is_the_input, false),
        TEST(a_plugin_sleeps_when_its_tail_has_ended, false),
        TEST(what_is_missing_is_refused, false),
        TEST(calls_in_a_wrong_order_do_nothing, false),
        TEST(calls_on_a_wrong_thread_are_refused, false),
        TEST(parameters_are_described, false),
        TEST(texts_and_values_agree, false),
        TEST(a_decimal_comma_of_the_host_changes_no_text, false),
        TEST(values_are_limited_and_flushed, false),
        TEST(states_come_back, false),
        TEST(a_state_plays_while_active_and_before, false),
        TEST(cut_and_hostile_states_change_nothing, false),
        TEST(changed_states_are_read_or_refused, false),
        TEST(a_state_of_the_future_is_read, false),
        TEST(a_lost_mask_passes_dry_sound, false),
        TEST(presets_load_mask_and_gains, false),
        TEST(a_preset_is_answered_when_its_own_load_ends, 0),
        TEST(a_preset_that_cannot_be_loaded_is_reported, false),
        TEST(presets_are_discovered, false),
        TEST(masks_come_while_blocks_play, false),
        TEST(process_makes_no_system_call, false),
        TEST(fifty_instances, false),
        TEST(churn, false),
    };
    return check_main("clap", tests, sizeof tests / sizeof *tests);
}
