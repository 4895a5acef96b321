/* The VST3 plugin in a host: the factory, buses, blocks, automation, parameters, states, and its real-time rules.
 *
 * struct recording keeps its whole input and output; played.h computes any frame in float64 from the mask's file. The host
 * renders offline, so that a busy machine does not fail a test, and a mask is there with the next block.
 */
#ifdef HC_WITH_CLAP
#include "clap_host.h"
#endif
#include "played.h"
#include "plugins/haloconv.vst3/vst3_classes.h"
#include "trap.h"
#include "vst3_host.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { RATE = 48000, STATE_BYTES = 32768, MAX_FRAMES = 8192 };

static const char *shipped(const char *name)
{
    static char path[4200];
    char folder[4096];
    const char *build = getenv("BUILD");
    check(realpath(build ? build : "build", folder), "no folder of the build");
    snprintf(path, sizeof path, "%s/haloconv.lv2/%s", folder, name);
    return path;
}

static void load_mask(struct vst3_session *s, const char *path)
{
    char text[STATE_BYTES];
    int n = snprintf(text, sizeof text, "haloconv plugin 1\nmask %s\nend\n", path);
    check(vst3_load(s, text, (size_t)n, n), "%s is refused", text);
}

/* ---- recordings -------------------------------------------------------------------------------------- */

struct recording {
    struct vst3_session *s;
    int n, cap;
    float *in[MAX_CHANNELS], *out[MAX_CHANNELS]; /* [cap] */
    bool in_place;
};

static struct recording recording_open(const char *variant, int cap, const char *mask, int32_t size, int max_frames)
{
    struct recording t = {.s = vst3_open(variant), .cap = cap};
    struct random r = random_seeded(5);
    for (int ch = 0; ch < t.s->variant->n_in; ch++) t.in[ch] = noise(&r, cap);
    for (int ch = 0; ch < t.s->variant->n_out; ch++) t.out[ch] = must_alloc((size_t)cap, sizeof(float));
    t.s->setup.symbolic_sample_size = size;
    if (mask) load_mask(t.s, mask);
    vst3_activate(t.s, max_frames);
    return t;
}

static void recording_close(struct recording *t)
{
    int n_in = t->s->variant->n_in, n_out = t->s->variant->n_out;
    vst3_close(t->s);
    for (int ch = 0; ch < n_in; ch++) free(t->in[ch]);
    for (int ch = 0; ch < n_out; ch++) free(t->out[ch]);
}

static void recording_play(void *recording, int n)
{
    struct recording *t = recording;
    static double doubles[2][MAX_CHANNELS][MAX_FRAMES];
    void *in[MAX_CHANNELS], *out[MAX_CHANNELS];
    bool is_double = t->s->setup.symbolic_sample_size == V3_SAMPLE_64;
    check(t->n + n <= t->cap && n <= MAX_FRAMES, "the test asks for more than its own %d frames", t->cap);
    for (int ch = 0; ch < t->s->variant->n_out; ch++)
        out[ch] = is_double ? (void *)doubles[1][ch] : (void *)(t->out[ch] + t->n);
    for (int ch = 0; ch < t->s->variant->n_in; ch++) {
        in[ch] = t->in_place ? out[ch] : is_double ? (void *)doubles[0][ch] : (void *)(t->in[ch] + t->n);
        for (int i = 0; is_double && i < n; i++) ((double *)in[ch])[i] = (double)t->in[ch][t->n + i];
        if (!is_double && t->in_place) memcpy(in[ch], t->in[ch] + t->n, (size_t)n * sizeof(float));
    }
    check(vst3_play(t->s, in, out, n) == V3_OK, "a block of %d frames is refused", n);
    for (int ch = 0; is_double && ch < t->s->variant->n_out; ch++)
        for (int i = 0; i < n; i++) t->out[ch][t->n + i] = (float)doubles[1][ch][i];
    t->n += n;
}

static void check_mix(const struct recording *t, const char *path, struct mix mix, int origin, int first)
{
    check_played(&(struct played){t->s->variant, RATE, t->n, t->in, t->out}, path, mix, origin, first, t->n);
}

/* ---- the library -------------------------------------------------------------------------------- */

static void a_scan_is_fast_and_opens_nothing(const char *backend)
{
    clock_t start = clock();
    struct v3_plugin_factory_3 **f = vst3_factory();
    int files = count_own("fd");
    check((*f)->num_classes(f) == N_VARIANTS, "%d classes", (*f)->num_classes(f));
    for (int v = 0; v < N_VARIANTS; v++) {
        struct v3_class_info one;
        struct v3_class_info_2 two;
        struct v3_class_info_3 three;
        check((*f)->get_class_info(f, v, &one) == V3_OK && (*f)->get_class_info_2(f, v, &two) == V3_OK &&
                  (*f)->get_class_info_utf16(f, v, &three) == V3_OK,
              "class %d", v);
        check(v3_tuid_match(one.class_id, two.class_id) && v3_tuid_match(one.class_id, three.class_id), "ids of %d", v);
        check(strcmp(one.name, variants[v].name) == 0 && strcmp(one.category, "Audio Module Class") == 0 &&
                  strcmp(two.name, one.name) == 0 && strncmp(two.sub_categories, "Fx|", 3) == 0 && two.version[0],
              "class %d: %s, %s", v, one.name, two.sub_categories);
        for (int i = 0; i < 64; i++) check(three.name[i] == one.name[i], "class %d: names differ", v);
        struct vst3_session *s = vst3_open(variants[v].symbol);
        check((*s->controller)->get_parameter_count(s->controller) > 0, "%s has no parameter", one.name);
        vst3_close(s);
    }
    check_scan(files, start);
}

/* Hosts read the file instead of loading the plugin. */
static void the_module_info_is_that_of_the_factory(const char *backend)
{
    static char text[16384];
    char path[4200], want[600];
    struct v3_plugin_factory_3 **f = vst3_factory();
    struct v3_class_info_2 info;
    snprintf(path, sizeof path, "%.*sResources/moduleinfo.json",
             (int)(strstr(vst3_file(), "Contents/") + 9 - vst3_file()), vst3_file());
    FILE *file = fopen(path, "r");
    check(file, "%s", path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *at = text;
    for (int i = 0; (*f)->get_class_info_2(f, i, &info) == V3_OK; i++) {
        char id[33];
        for (int k = 0; k < 16; k++) snprintf(id + 2 * k, 3, "%02X", info.class_id[k]);
        snprintf(want, sizeof want,
                 "\"CID\": \"%s\",\n      \"Category\": \"%s\",\n      \"Name\": \"%s\",\n      \"Vendor\": \"%s\",\n"
                 "      \"Version\": \"%s\",\n      \"SDKVersion\": \"%s\",\n",
                 id, info.category, info.name, info.vendor, info.version, info.sdk_version);
        at = strstr(at, want);
        check(at, "class %d of the factory is not class %d of %s:\n%s", i, i, path, want);
        at += strlen(want);
    }
    check(!strstr(at, "CID"), "%s has more classes", path);
}

/* Sessions of hosts have these. */
static void ids_stay(const char *backend)
{
    for (int c = 0; c < N_CONTROLS; c++)
        if (!(controls[c].flags & CONTROL_HIDDEN))
            check(control_with_id(control_id(c)) == c, "the id of %s is that of another control", controls[c].name);
    static const v3_tuid stereo = {'h',  'a',  'l',  'o',  'c',  'o',  'n',  'v',
                                   0x74, 0x0b, 0xe3, 0x90, 0x93, 0xaf, 0xe4, 0x4d};
    struct v3_plugin_factory_3 **f = vst3_factory();
    struct v3_class_info a, b;
    for (int i = 0; i < N_VARIANTS; i++)
        for (int k = 0; k < i; k++)
            check((*f)->get_class_info(f, i, &a) == V3_OK && (*f)->get_class_info(f, k, &b) == V3_OK &&
                      !v3_tuid_match(a.class_id, b.class_id),
                  "%s and %s have one id", a.name, b.name);
    check((*f)->get_class_info(f, 2, &a) == V3_OK && v3_tuid_match(a.class_id, stereo), "%s has another id", a.name);
}

static void the_factory_refuses_what_it_does_not_have(const char *backend)
{
    struct v3_plugin_factory_3 **f = vst3_factory();
    struct v3_class_info info;
    void *to = &info;
    check((*f)->get_class_info(f, -1, &info) != V3_OK && (*f)->get_class_info(f, N_VARIANTS, &info) != V3_OK,
          "a class beyond the last one");
    check((*f)->get_class_info(f, 0, &info) == V3_OK, "class 0");
    check((*f)->create_instance(f, v3_component_iid, v3_component_iid, &to) != V3_OK && !to, "an unknown class");
    check((*f)->create_instance(f, info.class_id, v3_bstream_iid, &to) != V3_OK && !to, "an unknown interface");
    check((*f)->query_interface(f, v3_bstream_iid, &to) == V3_NO_INTERFACE && !to, "an unknown interface");
}

static void buses_are_those_of_the_variant(const char *backend)
{
    for (int v = 0; v < N_VARIANTS; v++) {
        struct vst3_session *s = vst3_open(variants[v].symbol);
        v3_speaker_arrangement now[2], other[2], wrong;
        for (int direction = V3_INPUT; direction <= V3_OUTPUT; direction++) {
            struct v3_bus_info info;
            int n = direction == V3_INPUT ? variants[v].n_in : variants[v].n_out;
            check((*s->component)->get_bus_count(s->component, V3_AUDIO, direction) == 1 &&
                      (*s->component)->get_bus_count(s->component, V3_EVENT, direction) == 0 &&
                      (*s->component)->get_bus_info(s->component, V3_AUDIO, direction, 1, &info) != V3_OK &&
                      (*s->component)->get_bus_info(s->component, V3_AUDIO, direction, 0, &info) == V3_OK,
                  "%s: buses", variants[v].symbol);
            check(info.channel_count == n && info.bus_type == V3_MAIN && info.flags == V3_DEFAULT_ACTIVE,
                  "%s: %d channels", variants[v].symbol, info.channel_count);
            v3_result has = (*s->processor)->get_bus_arrangement(s->processor, direction, 0, &now[direction]);
            int n_speakers = __builtin_popcountll(now[direction]);
            check(n > 16 ? has == V3_FALSE : has == V3_OK && n_speakers == n, "%s: %d speakers", variants[v].symbol,
                  n_speakers);
            other[direction] = UINT64_MAX << (64 - n);
        }
        wrong = now[V3_INPUT] == 3 ? 7 : 3;
        check((*s->processor)->set_bus_arrangements(s->processor, &wrong, 1, now + 1, 1) == V3_FALSE &&
                  (*s->processor)->set_bus_arrangements(s->processor, now, 1, NULL, 0) == V3_FALSE &&
                  (*s->processor)->set_bus_arrangements(s->processor, other, 1, other + 1, 1) == V3_TRUE &&
                  (*s->processor)->get_bus_arrangement(s->processor, V3_INPUT, 0, now) == V3_OK && now[0] == other[0],
              "%s: arrangements", variants[v].symbol);
        vst3_activate(s, 64);
        check((*s->processor)->set_bus_arrangements(s->processor, other, 1, other + 1, 1) == V3_FALSE,
              "%s: another arrangement while active", variants[v].symbol);
        check((*s->processor)->get_latency_samples(s->processor) == 0, "%s: a latency", variants[v].symbol);
        vst3_close(s);
    }
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static void every_plugin_plays_its_mask(const char *backend)
{
    for (int v = 0; v < N_VARIANTS; v++)
        for (int way = 0; way < 4; way++) { /* in place and not, 32 and 64 bits */
            if (variants[v].n_sources > 0 || (way % 2 && variants[v].n_in != variants[v].n_out)) continue;
            struct recording t = recording_open(variants[v].symbol, SANITIZED ? 3000 : 9000, NULL, way / 2, 128);
            t.in_place = way % 2;
            play_random_blocks(recording_play, &t, t.cap / 2, 700, 1);
            play_random_blocks(recording_play, &t, t.cap - t.n, 5, 2);
            check_mix(&t, shipped(variants[v].mask), wet_only, 0, 0);
            recording_close(&t);
        }
}

static void any_block(const char *backend)
{
    static const int blocks[] = {1, 2, 63, 64, 65, 441, 1024, 8192};
    const char *mask = mask_file("four.wav", 4, 9000, RATE, 3);
    for (int b = 0; b < 8; b++)
        for (int size = V3_SAMPLE_32; size <= V3_SAMPLE_64; size++) {
            struct recording t =
                recording_open("true_stereo", 16384, mask, size, blocks[7 - b]); /* the host announces another */
            t.in_place = b % 2;
            for (int i = 0; i < 3000 && t.n + blocks[b] <= t.cap; i++) recording_play(&t, blocks[b]);
            check_mix(&t, mask, wet_only, 0, 0);
            recording_close(&t);
        }
}

static void stopping_forgets_and_another_mask_plays(const char *backend)
{
    struct recording t = recording_open("stereo", 40000, NULL, V3_SAMPLE_32, 64);
    play_random_blocks(recording_play, &t, 5000, 300, 1);
    int from = t.n;
    (*t.s->processor)->set_processing(t.s->processor, false);
    (*t.s->processor)->set_processing(t.s->processor, true);
    play_random_blocks(recording_play, &t, 5000, 300, 2);
    check_mix(&t, shipped("hall.wav"), wet_only, from, from);
    const char *mask = mask_file("other.wav", 2, 3000, RATE, 9);
    load_mask(t.s, mask);
    play_random_blocks(recording_play, &t, 10000, 300, 3);
    check_mix(&t, mask, wet_only, 0, t.n - 4000);
    vst3_deactivate(t.s);
    from = t.n;
    vst3_activate(t.s, 500);
    play_random_blocks(recording_play, &t, 5000, 300, 4);
    check_mix(&t, mask, wet_only, from, from);
    recording_close(&t);
}

static void check_same(const struct recording *a, const struct recording *b, double share)
{
    double peak = 0, off = 0;
    for (int ch = 0; ch < 2; ch++)
        for (int i = 0; i < a->n; i++) {
            peak = fmax(peak, fabs((double)b->out[ch][i]));
            off = fmax(off, fabs((double)a->out[ch][i] - (double)b->out[ch][i]));
        }
    check(a->n == b->n && off <= share * peak, "off by %g of %g", off, peak);
}

/* VST3 has lines between points: a step has two points. */
static void steps_are_at_their_frame(const char *backend)
{
    enum { N = 4096, AT = 1234 };
    struct recording one = recording_open("stereo", N, NULL, V3_SAMPLE_32, N),
                     two = recording_open("stereo", N, NULL, 0, N);
    vst3_point(one.s, WET, 0, 0);
    vst3_point(one.s, WET, 0, AT - 1);
    vst3_point(one.s, WET, -20, AT);
    vst3_point(one.s, ENABLED, 1, 3001); /* a switch has no lines */
    recording_play(&one, N);
    recording_play(&two, AT - 1);
    recording_play(&two, 1);
    vst3_point(two.s, WET, -20, 0);
    recording_play(&two, 3001 - AT);
    vst3_point(two.s, ENABLED, 1, 0);
    recording_play(&two, N - 3001);
    check_same(&one, &two, 1e-6);
    recording_close(&one), recording_close(&two);
}

static void lines_are_followed(const char *backend)
{
    enum { N = 6400, STEP = 64 };
    struct recording one = recording_open("stereo", N, NULL, V3_SAMPLE_32, N),
                     two = recording_open("stereo", N, NULL, 0, N);
    vst3_point(one.s, GAIN, -64, N); /* from 0 dB, the former value; the point is behind the block */
    recording_play(&one, N);
    while (two.n < N) {
        vst3_point(two.s, GAIN, -64.0 * two.n / N, 0);
        recording_play(&two, STEP);
    }
    check_same(&one, &two, 1e-5);
    char text[STATE_BYTES];
    check(vst3_save(one.s, text, 1000) && strstr(text, "\ngain -64\n"), "the last point does not hold: %s", text);
    recording_close(&one), recording_close(&two);
}

static void controls_mix_and_bypass_is_the_input(const char *backend)
{
    const char *mask = mask_file("mix.wav", 2, 3000, RATE, 8);
    struct recording t = recording_open("stereo", 60000, mask, V3_SAMPLE_32, 256);
    vst3_point(t.s, WET, -6, 0);
    vst3_point(t.s, DRY, -20, 0);
    vst3_point(t.s, GAIN, 3, 0);
    vst3_point(t.s, PREDELAY, 10, 0);
    recording_play(&t, 0); /* the parameters alone */
    play_random_blocks(recording_play, &t, 20000, 512, 4);
    double gain = pow(10, 3.0 / 20);
    check_mix(&t, mask, (struct mix){gain * pow(10, -1), gain * pow(10, -6.0 / 20), 480}, 0, 10000);
    uint32_t tail = (*t.s->processor)->get_tail_samples(t.s->processor);
    check(tail >= 3480 && tail < 4480, "a tail of %u frames", tail);
    vst3_point(t.s, ENABLED, 1, 0);
    play_random_blocks(recording_play, &t, 4000, 512, 5);
    int from = t.n;
    play_random_blocks(recording_play, &t, 4000, 512, 6);
    for (int ch = 0; ch < 2; ch++)
        for (int i = from; i < t.n; i++) check(t.out[ch][i] == t.in[ch][i], "bypassed: channel %d, frame %d", ch, i);
    recording_close(&t);
}

static void silence_is_flagged(const char *backend)
{
    static float sound[2][512], out[2][512];
    struct vst3_session *s = vst3_open("stereo");
    load_mask(s, mask_file("short.wav", 2, 700, RATE, 2));
    vst3_activate(s, 512);
    struct v3_audio_bus_buffers from = {.num_channels = 2, .channel_buffers_32 = (float *[]){sound[0], sound[1]}};
    struct v3_audio_bus_buffers to = {.num_channels = 2, .channel_buffers_32 = (float *[]){out[0], out[1]}};
    struct v3_process_data data = {.process_mode = V3_OFFLINE,
                                   .nframes = 512,
                                   .num_input_buses = 1,
                                   .num_output_buses = 1,
                                   .inputs = &from,
                                   .outputs = &to};
    for (int round = 0; round < 2; round++) {
        sound[0][0] = 1;
        check(vst3_block(s, &data) == V3_OK && to.channel_silence_bitset == 0, "sound is flagged as silence");
        sound[0][0] = 0;
        int n = 0;
        do {
            check(vst3_block(s, &data) == V3_OK && n++ < 1000, "silence is not flagged");
            for (int i = 0; i < 512; i++)
                check(!to.channel_silence_bitset || (out[0][i] == 0 && out[1][i] == 0), "sound is flagged as silence");
        } while (to.channel_silence_bitset != 3);
        check(n > 2, "silence is flagged in the tail");
    }
    vst3_close(s);
}

static void what_is_missing_is_refused(const char *backend)
{
    static float channel[4][64];
    float *two[] = {channel[0], channel[1]}, *hole[] = {channel[2], NULL};
    struct vst3_session *s = vst3_open("stereo");
    struct v3_audio_bus_buffers good = {.num_channels = 2, .channel_buffers_32 = two},
                                bad[] = {{.num_channels = 2},
                                         {.num_channels = 1, .channel_buffers_32 = two},
                                         {.num_channels = 3, .channel_buffers_32 = two},
                                         {.num_channels = 2, .channel_buffers_32 = hole}};
    const struct v3_process_data whole = {.process_mode = V3_OFFLINE,
                                          .nframes = 64,
                                          .num_input_buses = 1,
                                          .num_output_buses = 1,
                                          .inputs = &good,
                                          .outputs = &good};
    struct v3_process_data block = whole;
    check(vst3_block(s, &block) != V3_OK, "a block before set_active");
    check((*s->component)->set_active(s->component, true) != V3_OK, "set_active before setup_processing");
    vst3_activate(s, 64);
    check((*s->processor)->setup_processing(s->processor, &s->setup) != V3_OK, "setup_processing while active");
    check(vst3_block(s, &block) == V3_OK, "a whole block is refused");
    for (int i = 0; i < 4; i++) {
        block = whole, block.outputs = &bad[i];
        check(vst3_block(s, &block) != V3_OK, "output %d", i);
    }
    vst3_close(s);
}

static void a_missing_input_is_silence(const char *backend)
{
    enum { N = 700, BYPASS = 1 };
    static const struct v3_audio_bus_buffers off[] = {{0}, {.num_channels = 2}, {.num_channels = 1}};
    for (int way = 0; way < 8; way++) { /* 32 and 64 bits; these, and no bus */
        static union {
            float f[2 * N];
            double d[2 * N];
        } out;
        const int size = way % 2 ? V3_SAMPLE_64 : V3_SAMPLE_32, bytes = way % 2 ? sizeof(double) : sizeof(float);
        struct recording t = recording_open("stereo", N, NULL, size, 256);
        vst3_point(t.s, ENABLED, BYPASS, 0);
        recording_play(&t, N);
        memset(&out, 0x33, sizeof out);
        struct v3_audio_bus_buffers from = off[way / 2 % 3], to = {.num_channels = 2};
        to.channel_buffers_32 = (float *[]){out.f, (float *)(void *)((char *)&out + N * bytes)};
        struct v3_process_data block = {.process_mode = V3_OFFLINE,
                                        .symbolic_sample_size = size,
                                        .nframes = N,
                                        .num_input_buses = way < 6,
                                        .num_output_buses = 1,
                                        .inputs = way < 6 ? &from : NULL,
                                        .outputs = &to};
        check(vst3_block(t.s, &block) == V3_OK, "way %d: a block is refused", way);
        for (int i = 0; i < 2 * N; i++)
            check((way % 2 ? out.d[i] : (double)out.f[i]) == 0, "way %d: frame %d is not silent", way, i);
        recording_close(&t);
    }
}

static void hostile_points_are_limited(const char *backend)
{
    struct recording t = recording_open("stereo", 4096, NULL, V3_SAMPLE_32, 64);
    static const int frames[] = {500, -7, 70000, INT32_MAX, INT32_MIN, 3};
    for (int i = 0; i < 6; i++) vst3_point(t.s, WET, i % 2 ? NAN : INFINITY, frames[i]);
    vst3_point(t.s, LOST, 1e8, 3); /* only the plugin sets it */
    recording_play(&t, 4096);
    check(vst3_get(t.s, LOST) == 0, "a host sets a meter to %g", vst3_get(t.s, LOST));
    for (int i = 0; i < t.n; i++) check(isfinite(t.out[0][i]), "frame %d is %g", i, (double)t.out[0][i]);
    char text[STATE_BYTES];
    check(vst3_save(t.s, text, 1000) && strstr(text, "\nwet -90\n"), "the last value is not the limit: %s", text);
    recording_close(&t);
}

struct child {
    struct recording recording;
    int n;
};

static int play_many(void *arg)
{
    struct child *c = arg;
    for (int i = 0; i < c->n; i++) {
        vst3_point(c->recording.s, WET, -i % 10, 10);
        recording_play(&c->recording, 64);
    }
    return 0;
}

static void process_makes_no_system_call(const char *backend)
{
    if (SANITIZED) check_skip("a sanitizer makes system calls of its own");
    struct child c = {recording_open("stereo", 60000, NULL, V3_SAMPLE_32, 64), 200};
    vst3_deactivate(c.recording.s);
    c.recording.s->setup.process_mode = V3_REALTIME;
    vst3_activate(c.recording.s, 64);
    c.recording.s->is_trapped = true;
    for (double end = now_s() + 0.1; now_s() < end; pause_us(1000))
        recording_play(&c.recording, 16); /* the loader is done */
    check(!c.recording.s->caught, "process() calls %s", c.recording.s->caught);
    c.recording.s->is_trapped = false;
    check(trap_child(play_many, &c) == 0, "process() made a system call, or ended the child");
    recording_close(&c.recording);
}

/* ---- parameters and states ---------------------------------------------------------------------- */

static void texts_and_values_agree(const char *backend)
{
    for (int v = 0; v < N_VARIANTS; v++) {
        struct vst3_session *s = vst3_open(variants[v].symbol);
        struct v3_edit_controller **c = s->controller;
        struct v3_param_info info;
        int n = (*c)->get_parameter_count(c), n_bypass = 0;
        check((*c)->get_parameter_info(c, n, &info) != V3_OK && (*c)->get_parameter_info(c, INT32_MIN, &info) != V3_OK,
              "info");
        for (int i = 0; i < n; i++) {
            check((*c)->get_parameter_info(c, i, &info) == V3_OK && info.title[0], "parameter %d", i);
            check((*c)->get_parameter_normalised(c, info.param_id) == info.default_normalised_value, "initial value");
            n_bypass += (info.flags & V3_PARAM_IS_BYPASS) != 0;
            for (int k = 0; k <= 100; k++) {
                v3_str_128 text, again;
                double x = k / 100.0, back;
                check((*c)->get_parameter_string_for_value(c, info.param_id, x, text) == V3_OK, "text");
                check((*c)->get_parameter_value_for_string(c, info.param_id, text, &back) == V3_OK, "its value");
                check((*c)->get_parameter_string_for_value(c, info.param_id, back, again) == V3_OK, "its text");
                for (int j = 0; j == 0 || text[j - 1]; j++) check(text[j] == again[j], "text of %g and %g", x, back);
                double plain = (*c)->normalised_parameter_to_plain(c, info.param_id, x);
                back = (*c)->plain_parameter_to_normalised(c, info.param_id, plain);
                check(info.step_count ? (*c)->normalised_parameter_to_plain(c, info.param_id, back) == plain
                                      : fabs(back - x) < 1e-6,
                      "%g becomes %g", x, back);
            }
        }
        check(n_bypass == 1, "%d bypasses", n_bypass);
        vst3_close(s);
    }
    static const struct {
        enum control control;
        const char *text;
        double value; /* NaN: refused */
    } reads[] = {{WET, "-6 dB", -6},   {WET, "-inf", -90},        {BACKEND, "gpu", 2}, {ENABLED, "On", 1},
                 {PREDELAY, "10", 10}, {TRIM, "Off", NO_TRIM_DB}, {WET, "loud", NAN},  {WET, "", NAN}};
    struct vst3_session *s = vst3_open("stereo");
    for (int k = 0; k < 100; k++) { /* each of three choices has a third of the range */
        double choice = (*s->controller)->normalised_parameter_to_plain(s->controller, control_id(BACKEND), k / 99.0);
        check(choice == (k < 33 ? 0 : k < 66 ? 1 : 2), "%d/99 is %g", k, choice);
    }
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        v3_str_128 text = {0};
        double x;
        uint32_t id = control_id(reads[i].control);
        for (int k = 0; reads[i].text[k]; k++) text[k] = reads[i].text[k];
        bool is_read = (*s->controller)->get_parameter_value_for_string(s->controller, id, text, &x) == V3_OK;
        check(is_read == !isnan(reads[i].value), "%s", reads[i].text);
        if (!is_read) continue;
        x = (*s->controller)->normalised_parameter_to_plain(s->controller, id, x);
        check(fabs(x - reads[i].value) < 1e-5, "%s is %g", reads[i].text, x);
    }
    vst3_close(s);
}

static void a_preset_is_a_choice_of_a_list(const char *backend)
{
    struct recording t = recording_open("stereo", 40000, NULL, V3_SAMPLE_32, 64);
    struct v3_edit_controller **c = t.s->controller;
    v3_str_128 spring = {'S', 'p', 'r', 'i', 'n', 'g'};
    double x, hall = (*c)->get_parameter_normalised(c, VST3_PRESET);
    (*c)->set_parameter_normalised(c, VST3_PRESET, hall); /* it plays */
    (*c)->set_parameter_normalised(c, VST3_PRESET, 0);
    check(t.s->handler.n_restarts == 0 && hall > 0, "a preset that plays is loaded");
    play_random_blocks(recording_play, &t, 5000, 300, 1);
    check_mix(&t, shipped("hall.wav"), wet_only, 0, 0);
    check((*c)->get_parameter_value_for_string(c, VST3_PRESET, spring, &x) == V3_OK, "no preset Spring");
    (*c)->set_parameter_normalised(c, VST3_PRESET, x);
    check(t.s->handler.n_restarts == 1 && (*c)->get_parameter_normalised(c, VST3_PRESET) == x,
          "the host is not notified of the values");
    play_random_blocks(recording_play, &t, 30000, 300, 2);
    check((*c)->get_parameter_normalised(c, VST3_PRESET) == x && vst3_get(t.s, WET) == -12, "the preset is not there");
    char text[STATE_BYTES];
    check(vst3_save(t.s, text, 1000) && vst3_load(t.s, text, strlen(text), 1000) &&
              (*c)->get_parameter_normalised(c, VST3_PRESET) == x,
          "a state has another preset");
    check_mix(&t, shipped("spring.wav"), (struct mix){1, pow(10, -0.6), 0}, 0, t.n - 5000);
    load_mask(t.s, mask_file("own.wav", 2, 100, RATE, 4));
    recording_play(&t, 64);
    check((*c)->get_parameter_normalised(c, VST3_PRESET) == 0, "an own mask counts as a preset");
    recording_close(&t);
    struct vst3_session *head = vst3_open("binaural");
    check((*head->controller)->normalised_parameter_to_plain(head->controller, VST3_PRESET, 1) == 0,
          "a preset with sources");
    vst3_close(head);
}

/* Choices of the parameter Preset, normalised. */
static double preset_named(struct vst3_session *s, const char *name)
{
    v3_str_128 text = {0};
    double x;
    for (int i = 0; name[i]; i++) text[i] = name[i];
    check((*s->controller)->get_parameter_value_for_string(s->controller, VST3_PRESET, text, &x) == V3_OK, "no %s",
          name);
    return x;
}

static double preset_now(struct vst3_session *s)
{
    return (*s->controller)->get_parameter_normalised(s->controller, VST3_PRESET);
}

static void choose(struct vst3_session *s, v3_param_id id, double x)
{
    check((*s->controller)->set_parameter_normalised(s->controller, id, x) == V3_OK, "parameter %x", id);
}

static void check_state(struct vst3_session *s, const char *lines)
{
    char text[STATE_BYTES];
    check(vst3_save(s, text, 1000) && strstr(text, lines), "the state lacks %s: %s", lines, text);
}

static void the_default_of_preset_is_that_of_a_new_instance(const char *backend)
{
    struct vst3_session *s = vst3_open("stereo");
    struct v3_param_info info = {0};
    choose(s, VST3_PRESET, preset_named(s, "Spring"));
    const int last = (*s->controller)->get_parameter_count(s->controller) - 1;
    check((*s->controller)->get_parameter_info(s->controller, last, &info) == V3_OK && info.param_id == VST3_PRESET,
          "info");
    check(info.default_normalised_value == preset_named(s, "Hall"), "default %g", info.default_normalised_value);
    vst3_close(s);
}

static void a_preset_that_cannot_be_loaded_is_chosen_again(const char *backend)
{
    struct recording t = recording_open("stereo", 1000, NULL, V3_SAMPLE_32, 64);
    const double spring = preset_named(t.s, "Spring"), hall = preset_named(t.s, "Hall");
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, files.rlim_max});
    choose(t.s, VST3_PRESET, spring);
    recording_play(&t, 64);
    setrlimit(RLIMIT_NOFILE, &files);
    check(preset_now(t.s) == hall, "a preset that cannot be loaded is shown");
    choose(t.s, VST3_PRESET, spring);
    check_state(t.s, "\nshipped spring.wav\n");
    check(preset_now(t.s) == spring, "a preset that plays is not shown");
    recording_close(&t);
}

static void a_state_waits_for_the_mask_of_its_preset(const char *backend)
{
    for (int i = 0; i < 20; i++) {
        struct recording t = recording_open("stereo", 1000, NULL, V3_SAMPLE_32, 64);
        choose(t.s, VST3_PRESET, preset_named(t.s, "Spring"));
        check_state(t.s, "\nshipped spring.wav\ndry 0\n");
        recording_close(&t);
    }
}

static void a_preset_is_that_of_the_side_that_plays(const char *backend)
{
    static const char both[] = "haloconv plugin 1\nshipped hall.wav\nshipped_b hall.wav\nend\n";
    for (int is_active = 0; is_active < 2; is_active++) {
        struct recording t = recording_open("stereo", 1000, NULL, V3_SAMPLE_32, 64);
        const double spring = preset_named(t.s, "Spring"), hall = preset_named(t.s, "Hall");
        check(vst3_load(t.s, both, strlen(both), 100), "the state");
        recording_play(&t, 64);
        if (!is_active) vst3_deactivate(t.s);
        choose(t.s, VST3_PRESET, spring);
        check_state(t.s, "\nshipped spring.wav\nshipped_b hall.wav\n");
        const int n = t.s->handler.n_restarts;
        choose(t.s, control_id(A_B), 1);
        check(preset_now(t.s) == hall && t.s->handler.n_restarts == n + 1, "side B has the preset of side A");
        choose(t.s, control_id(A_B), 1);
        check(t.s->handler.n_restarts == n + 1, "the host is notified of the same side");
        if (is_active) vst3_point(t.s, A_B, SIDE_B, 0), recording_play(&t, 64);
        choose(t.s, VST3_PRESET, spring);
        check_state(t.s, "\nshipped spring.wav\nshipped_b spring.wav\n");
        recording_close(&t);
    }
}

static void meters_are_parameters_that_only_show(const char *backend)
{
    struct recording t = recording_open("stereo", 20000, NULL, V3_SAMPLE_32, 500);
    struct v3_edit_controller **c = t.s->controller;
    struct v3_param_info info;
    v3_str_128 text;
    int n_meters = 0;
    for (int i = 0; (*c)->get_parameter_info(c, i, &info) == V3_OK; i++) {
        n_meters += info.flags == V3_PARAM_READ_ONLY && info.step_count == 0;
        check((info.flags & V3_PARAM_READ_ONLY) == 0 || info.flags == V3_PARAM_READ_ONLY, "flags %x", info.flags);
    }
    check(n_meters == 4, "%d meters", n_meters);
    for (int i = 0; i < 4; i++) recording_play(&t, 500);
    check(isnan(t.s->meters[LOAD]), "a meter is sent after %d frames", t.n);
    for (int i = 0; i < 4; i++) recording_play(&t, 500);
    check(t.s->meters[LOAD] > 0 && isnan(t.s->meters[LATE]), "the load is %g", t.s->meters[LOAD]);
    t.s->meters[LOAD] = NAN;
    recording_play(&t, 500);
    check(isnan(t.s->meters[LOAD]), "a meter is sent twice in %d frames", 500);
    const uint32_t id = control_id(LOAD);
    (*c)->set_parameter_normalised(c, id, 1); /* as hosts do with what was sent */
    const double load = (*c)->get_parameter_normalised(c, id);
    check(load > 0 && load < 1, "a host sets the load to %g", load);
    check((*c)->get_parameter_string_for_value(c, id, 0.0375, text) == V3_OK && text[0] == '3' && text[1] == '7' &&
              text[2] == '.' && text[3] == '5' && text[4] == 0,
          "the text of 37.5 %%");
    recording_close(&t);
}

static void set_all(struct vst3_session *s, struct random *r)
{
    struct v3_param_info info;
    for (int i = 0; (*s->controller)->get_parameter_info(s->controller, i, &info) == V3_OK; i++)
        if (control_with_id(info.param_id) < N_CONTROLS)
            (*s->controller)
                ->set_parameter_normalised(s->controller, info.param_id, 0.5 + 0.5 * (double)random_sample(r));
}

static void states_come_back(const char *backend)
{
    static const int chunks[] = {STATE_BYTES, 1, 7, 100};
    struct random r = random_seeded(3);
    for (int i = 0; i < 12; i++) {
        char text[STATE_BYTES], again[STATE_BYTES];
        struct vst3_session *a = vst3_open(i % 3 == 2 ? "binaural" : "stereo"), *b = vst3_open(a->variant->symbol);
        if (i % 3 == 1) load_mask(a, "/a\\x0a\\x5cb.wav");
        set_all(a, &r);
        check(vst3_save(a, text, chunks[i % 4]) && vst3_load(b, text, strlen(text), chunks[i % 4]), "%s", text);
        check(vst3_save(b, again, STATE_BYTES) && strcmp(text, again) == 0, "%s became %s", text, again);
        check((i % 3 == 1) == !strstr(text, "\nshipped "), "%s", text);
        for (int c = 0; c < N_CONTROLS; c++) check(fabs(vst3_get(a, c) - vst3_get(b, c)) < 1e-5, "control %d", c);
        vst3_close(a), vst3_close(b);
    }
}

static void states_are_those_of_clap(const char *backend)
{
#ifdef HC_WITH_CLAP
    struct random r = random_seeded(8);
    for (int v = 0; v < N_VARIANTS; v++) {
        char text[STATE_BYTES], again[STATE_BYTES];
        struct vst3_session *s = vst3_open(variants[v].symbol), *back = vst3_open(variants[v].symbol);
        struct clap_session *clap = clap_open(variants[v].symbol, true);
        static const char two[] = "haloconv plugin 1\nshipped hall.wav\nmask_b /a\\x0ab.wav\nend\n";
        check(vst3_load(s, two, strlen(two), 100), "two masks are refused");
        set_all(s, &r);
        check(vst3_save(s, text, 100) && strstr(text, "\nmask_b /a\\x0ab.wav\n"), "without B: %s", text);
        check(clap_load(clap, text, strlen(text), 100), "to CLAP: %s", text);
        double bypass;
        check(clap->params->get_value(clap->plugin, control_id(ENABLED), &bypass) && bypass == vst3_get(s, ENABLED),
              "the bypass is %g in CLAP", bypass);
        check(clap_save(clap, again, 100) && strcmp(text, again) == 0, "%s became %s", text, again);
        check(vst3_load(back, again, strlen(again), 100) && vst3_save(back, again, 100) && strcmp(text, again) == 0,
              "%s came back as %s", text, again);
        vst3_close(s), vst3_close(back), clap_close(clap);
    }
#else
    check_skip("built without CLAP");
#endif
}

static void hostile_states_change_nothing(const char *backend)
{
    static const char *const bad[] = {"haloconv plugin 0\nend\n", "end\n", "haloconv plugin 1\nwet loud\nend\n",
                                      "haloconv plugin 1\nshipped ../../etc/passwd\nend\n",
                                      "haloconv plugin 1\nvariant binaural\nend\n"};
    char text[STATE_BYTES], now[STATE_BYTES], large[STATE_BYTES + 1];
    struct random r = random_seeded(4);
    struct vst3_session *s = vst3_open("stereo"), *plain = vst3_open("stereo");
    set_all(s, &r);
    check(vst3_save(s, text, STATE_BYTES) && vst3_save(plain, now, STATE_BYTES), "save");
    for (size_t n = 0; n < strlen(now); n += 16) check(!vst3_load(s, now, n, 50), "cut at %zu", n);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(!vst3_load(s, bad[i], strlen(bad[i]), 50), "%s", bad[i]);
    memset(large, 'x', sizeof large);
    check(!vst3_load(s, large, sizeof large, 1000) && !vst3_load(s, "haloconv plugin 1\n\0\nend\n", 24, 50),
          "not a text");
    check((*s->component)->set_state(s->component, NULL) != V3_OK, "no stream");
    check(vst3_save(s, now, STATE_BYTES) && strcmp(now, text) == 0, "%s became %s", text, now);
    vst3_close(s), vst3_close(plain);
}

/* While active, values come by queues; the values that the host shows are others. */
static void shown_values_are_not_those_that_play(const char *backend)
{
    char text[STATE_BYTES];
    struct recording t = recording_open("stereo", 256, NULL, V3_SAMPLE_32, 64);
    (*t.s->controller)->set_parameter_normalised(t.s->controller, control_id(PREDELAY), 0.5);
    check(vst3_get(t.s, PREDELAY) == 250, "shown: %g", vst3_get(t.s, PREDELAY));
    check(vst3_save(t.s, text, 1000) && strstr(text, "\npredelay 0\n"), "%s", text);
    vst3_point(t.s, PREDELAY, 100, 0);
    recording_play(&t, 64);
    check(vst3_get(t.s, PREDELAY) == 250, "shown: %g", vst3_get(t.s, PREDELAY));
    check(vst3_save(t.s, text, 1000) && strstr(text, "\npredelay 100\n"), "%s", text);
    recording_close(&t);
}

static void *play_on(void *data)
{
    struct recording *t = data;
    while (t->n + 64 <= t->cap) {
        vst3_point(t->s, GAIN, -t->n % 7, 5);
        recording_play(t, 64);
        pause_us(100);
    }
    return NULL;
}

static void the_window_works_while_blocks_play(const char *backend)
{
    struct recording t = recording_open("stereo", 64 * 3000, NULL, V3_SAMPLE_32, 64);
    struct v3_edit_controller **c = t.s->controller;
    struct random r = random_seeded(6);
    pthread_t audio;
    char text[STATE_BYTES];
    vst3_deactivate(t.s);
    t.s->setup.process_mode = V3_REALTIME;
    vst3_activate(t.s, 64);
    check(pthread_create(&audio, NULL, play_on, &t) == 0, "pthread_create");
    for (int i = 0; i < 50; i++) {
        set_all(t.s, &r);
        (*c)->set_parameter_normalised(c, VST3_PRESET, 0.5 + 0.5 * (double)random_sample(&r)); /* the preset */
        check(vst3_save(t.s, text, 1000) && vst3_load(t.s, text, strlen(text), 1000), "%s", text);
        (*t.s->processor)->get_tail_samples(t.s->processor);
        pause_us(2000);
    }
    static const char last[] = "haloconv plugin 1\nshipped cabinet.wav\nend\n";
    check(vst3_load(t.s, last, strlen(last), 1000), "%s", last);
    pthread_join(audio, NULL);
    t.s->setup.process_mode = V3_OFFLINE;
    t.n -= 64;
    recording_play(&t, 64);
    check(vst3_save(t.s, text, 1000) && strstr(text, "\nshipped cabinet.wav\n"), "the last mask is not there: %s",
          text);
    for (int ch = 0; ch < 2; ch++)
        for (int i = 0; i < t.n; i++) check(isfinite(t.out[ch][i]), "channel %d, frame %d", ch, i);
    recording_close(&t);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(a_scan_is_fast_and_opens_nothing, false),
        TEST(the_module_info_is_that_of_the_factory, false),
        TEST(ids_stay, false),
        TEST(the_factory_refuses_what_it_does_not_have, false),
        TEST(buses_are_those_of_the_variant, false),
        TEST(every_plugin_plays_its_mask, false),
        TEST(any_block, false),
        TEST(stopping_forgets_and_another_mask_plays, false),
        TEST(steps_are_at_their_frame, false),
        TEST(lines_are_followed, false),
        TEST(controls_mix_and_bypass_is_the_input, false),
        TEST(silence_is_flagged, false),
        TEST(what_is_missing_is_refused, false),
        TEST(a_missing_input_is_silence, false),
        TEST(hostile_points_are_limited, false),
        TEST(process_makes_no_system_call, false),
        TEST(texts_and_values_agree, false),
        TEST(a_preset_is_a_choice_of_a_list, false),
        TEST(the_default_of_preset_is_that_of_a_new_instance, false),
        TEST(a_preset_that_cannot_be_loaded_is_chosen_again, false),
        TEST(a_state_waits_for_the_mask_of_its_preset, false),
        TEST(a_preset_is_that_of_the_side_that_plays, false),
        TEST(meters_are_parameters_that_only_show, false),
        TEST(states_come_back, false),
        TEST(states_are_those_of_clap, false),
        TEST(hostile_states_change_nothing, false),
        TEST(shown_values_are_not_those_that_play, false),
        TEST(the_window_works_while_blocks_play, false),
    };
    return check_main("vst3", tests, sizeof tests / sizeof *tests);
}
