/* The VST3 plugin in a host: what VST3 alone has. plugin_promises_test.c has the promises of every standard. */
#ifdef HC_WITH_CLAP
#include "clap_host.h"
#endif
#include "plugins/haloconv.vst3/vst3_classes.h"
#include "recording.h"
#include "vst3_host.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { STATE_BYTES = PLUGIN_STATE_BYTES };

/* A plugin in a host that renders. */
static struct recording open_recording(int cap, struct vst3_session **session)
{
    struct recording r = recording_open_stereo(&plugin_vst3, cap);
    *session = r.p->host;
    return r;
}

/* ---- the library -------------------------------------------------------------------------------- */

static void classes_are_complete(const char *backend)
{
    struct v3_plugin_factory_3 **f = vst3_factory();
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

static void lines_are_followed(const char *backend)
{
    enum { N = 6400, STEP = 64 };
    struct vst3_session *a, *b;
    struct recording one = open_recording(N, &a), two = open_recording(N, &b);
    vst3_point(a, GAIN, -64, N); /* from 0 dB, the former value; the point is behind the block */
    recording_play(&one, N);
    while (two.n < N) {
        vst3_point(b, GAIN, -64.0 * two.n / N, 0);
        recording_play(&two, STEP);
    }
    check_same(&one, &two, 1e-5);
    char text[STATE_BYTES];
    check(vst3_save(a, text, 1000) && strstr(text, "\ngain -64\n"), "the last point does not hold: %s", text);
    recording_close(&one), recording_close(&two);
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
    check((*s->component)->set_state(s->component, NULL) != V3_OK, "a state without a stream");
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
        const struct plugin_setup setup = {.variant = "stereo", .is_double = way % 2};
        struct recording r = recording_open(&plugin_vst3, &setup, N);
        struct vst3_session *s = r.p->host;
        vst3_point(s, ENABLED, BYPASS, 0);
        recording_play(&r, N);
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
        check(vst3_block(s, &block) == V3_OK, "way %d: a block is refused", way);
        for (int i = 0; i < 2 * N; i++)
            check((way % 2 ? out.d[i] : (double)out.f[i]) == 0, "way %d: frame %d is not silent", way, i);
        recording_close(&r);
    }
}

static void hostile_points_are_limited(const char *backend)
{
    struct vst3_session *s;
    struct recording r = open_recording(4096, &s);
    static const int frames[] = {500, -7, 70000, INT32_MAX, INT32_MIN, 3};
    for (int i = 0; i < 6; i++) vst3_point(s, WET, i % 2 ? NAN : INFINITY, frames[i]);
    vst3_point(s, LOST, 1e8, 3); /* only the plugin sets it */
    recording_play(&r, 4096);
    check(vst3_get(s, LOST) == 0, "a host sets a meter to %g", vst3_get(s, LOST));
    for (int i = 0; i < r.n; i++) check(isfinite(r.out[0][i]), "frame %d is %g", i, (double)r.out[0][i]);
    char text[STATE_BYTES];
    check(vst3_save(s, text, 1000) && strstr(text, "\nwet -90\n"), "the last value is not the limit: %s", text);
    recording_close(&r);
}

/* ---- parameters and states ---------------------------------------------------------------------- */

static void parameters_are_described(const char *backend)
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
        for (int k = 0; k < 100; k++) { /* each of three choices has a third of the range */
            double choice = (*c)->normalised_parameter_to_plain(c, control_id(BACKEND), k / 99.0);
            check(choice == (k < 33 ? 0 : k < 66 ? 1 : 2), "%d/99 is %g", k, choice);
        }
        vst3_close(s);
    }
}

static void a_preset_is_a_choice_of_a_list(const char *backend)
{
    struct vst3_session *s;
    struct recording r = open_recording(40000, &s);
    struct v3_edit_controller **c = s->controller;
    v3_str_128 spring = {'S', 'p', 'r', 'i', 'n', 'g'};
    double x, hall = (*c)->get_parameter_normalised(c, VST3_PRESET);
    (*c)->set_parameter_normalised(c, VST3_PRESET, hall); /* it plays */
    (*c)->set_parameter_normalised(c, VST3_PRESET, 0);
    check(s->handler.n_restarts == 0 && hall > 0, "a preset that plays is loaded");
    recording_play_random(&r, 5000, 300, 1);
    check_mix(&r, shipped_mask("hall.wav"), wet_only, 0, 0, r.n);
    check((*c)->get_parameter_value_for_string(c, VST3_PRESET, spring, &x) == V3_OK, "no preset Spring");
    (*c)->set_parameter_normalised(c, VST3_PRESET, x);
    check(s->handler.n_restarts == 1 && (*c)->get_parameter_normalised(c, VST3_PRESET) == x,
          "the host is not notified of the values");
    recording_play_random(&r, 30000, 300, 2);
    check((*c)->get_parameter_normalised(c, VST3_PRESET) == x && vst3_get(s, WET) == -12, "the preset is not there");
    char text[STATE_BYTES];
    check(vst3_save(s, text, 1000) && vst3_load(s, text, strlen(text), 1000) &&
              (*c)->get_parameter_normalised(c, VST3_PRESET) == x,
          "a state has another preset");
    check_mix(&r, shipped_mask("spring.wav"), (struct mix){1, pow(10, -0.6), 0}, 0, r.n - 5000, r.n);
    plugin_vst3.choose(r.p, mask_file("own.wav", 2, 100, 48000, 4), 0);
    recording_play(&r, 64);
    check((*c)->get_parameter_normalised(c, VST3_PRESET) == 0, "an own mask counts as a preset");
    recording_close(&r);
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
    struct vst3_session *s;
    struct recording r = open_recording(1000, &s);
    const double spring = preset_named(s, "Spring"), hall = preset_named(s, "Hall");
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, files.rlim_max});
    choose(s, VST3_PRESET, spring);
    recording_play(&r, 64);
    setrlimit(RLIMIT_NOFILE, &files);
    check(preset_now(s) == hall, "a preset that cannot be loaded is shown");
    choose(s, VST3_PRESET, spring);
    check_state(s, "\nshipped spring.wav\n");
    check(preset_now(s) == spring, "a preset that plays is not shown");
    recording_close(&r);
}

static void a_state_waits_for_the_mask_of_its_preset(const char *backend)
{
    for (int i = 0; i < 20; i++) {
        struct vst3_session *s;
        struct recording r = open_recording(1000, &s);
        choose(s, VST3_PRESET, preset_named(s, "Spring"));
        check_state(s, "\nshipped spring.wav\ndry 0\n");
        recording_close(&r);
    }
}

static void a_preset_is_that_of_the_side_that_plays(const char *backend)
{
    static const char both[] = "haloconv plugin 1\nshipped hall.wav\nshipped_b hall.wav\nend\n";
    for (int is_active = 0; is_active < 2; is_active++) {
        struct vst3_session *s;
        struct recording r = open_recording(1000, &s);
        const double spring = preset_named(s, "Spring"), hall = preset_named(s, "Hall");
        check(vst3_load(s, both, strlen(both), 100), "the state");
        recording_play(&r, 64);
        if (!is_active) plugin_deactivate(r.p);
        choose(s, VST3_PRESET, spring);
        check_state(s, "\nshipped spring.wav\nshipped_b hall.wav\n");
        const int n = s->handler.n_restarts;
        choose(s, control_id(A_B), 1);
        check(preset_now(s) == hall && s->handler.n_restarts == n + 1, "side B has the preset of side A");
        choose(s, control_id(A_B), 1);
        check(s->handler.n_restarts == n + 1, "the host is notified of the same side");
        if (is_active) vst3_point(s, A_B, SIDE_B, 0), recording_play(&r, 64);
        choose(s, VST3_PRESET, spring);
        check_state(s, "\nshipped spring.wav\nshipped_b spring.wav\n");
        recording_close(&r);
    }
}

static void meters_are_parameters_that_only_show(const char *backend)
{
    struct vst3_session *s;
    struct recording r = open_recording(20000, &s);
    struct v3_edit_controller **c = s->controller;
    struct v3_param_info info;
    v3_str_128 text;
    int n_meters = 0;
    for (int i = 0; (*c)->get_parameter_info(c, i, &info) == V3_OK; i++) {
        n_meters += info.flags == V3_PARAM_READ_ONLY && info.step_count == 0;
        check((info.flags & V3_PARAM_READ_ONLY) == 0 || info.flags == V3_PARAM_READ_ONLY, "flags %x", info.flags);
    }
    check(n_meters == 4, "%d meters", n_meters);
    for (int i = 0; i < 4; i++) recording_play(&r, 500);
    check(isnan(s->meters[LOAD]), "a meter is sent after %d frames", r.n);
    for (int i = 0; i < 4; i++) recording_play(&r, 500);
    check(s->meters[LOAD] > 0 && isnan(s->meters[LATE]), "the load is %g", s->meters[LOAD]);
    s->meters[LOAD] = NAN;
    recording_play(&r, 500);
    check(isnan(s->meters[LOAD]), "a meter is sent twice in %d frames", 500);
    const uint32_t id = control_id(LOAD);
    (*c)->set_parameter_normalised(c, id, 1); /* as hosts do with what was sent */
    const double load = (*c)->get_parameter_normalised(c, id);
    check(load > 0 && load < 1, "a host sets the load to %g", load);
    check((*c)->get_parameter_string_for_value(c, id, 0.0375, text) == V3_OK && text[0] == '3' && text[1] == '7' &&
              text[2] == '.' && text[3] == '5' && text[4] == 0,
          "the text of 37.5 %%");
    recording_close(&r);
}

static void set_all(struct vst3_session *s, struct random *r)
{
    struct v3_param_info info;
    for (int i = 0; (*s->controller)->get_parameter_info(s->controller, i, &info) == V3_OK; i++)
        if (control_with_id(info.param_id) < N_CONTROLS)
            (*s->controller)
                ->set_parameter_normalised(s->controller, info.param_id, 0.5 + 0.5 * (double)random_sample(r));
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

/* While active, values come by queues; the values that the host shows are others. */
static void shown_values_are_not_those_that_play(const char *backend)
{
    char text[STATE_BYTES];
    struct vst3_session *s;
    struct recording r = open_recording(256, &s);
    (*s->controller)->set_parameter_normalised(s->controller, control_id(PREDELAY), 0.5);
    check(vst3_get(s, PREDELAY) == 250, "shown: %g", vst3_get(s, PREDELAY));
    check(vst3_save(s, text, 1000) && strstr(text, "\npredelay 0\n"), "%s", text);
    vst3_point(s, PREDELAY, 100, 0);
    recording_play(&r, 64);
    check(vst3_get(s, PREDELAY) == 250, "shown: %g", vst3_get(s, PREDELAY));
    check(vst3_save(s, text, 1000) && strstr(text, "\npredelay 100\n"), "%s", text);
    recording_close(&r);
}

static void *play_on(void *data)
{
    struct recording *t = data;
    while (t->n + 64 <= t->cap) {
        vst3_point(t->p->host, GAIN, -t->n % 7, 5);
        recording_play(t, 64);
        pause_us(100);
    }
    return NULL;
}

static void the_window_works_while_blocks_play(const char *backend)
{
    struct vst3_session *s;
    struct recording r = open_recording(64 * 3000, &s);
    struct v3_edit_controller **c = s->controller;
    struct random random = random_seeded(6);
    pthread_t audio;
    char text[STATE_BYTES];
    plugin_deactivate(r.p);
    s->setup.process_mode = V3_REALTIME;
    plugin_activate(r.p, 48000, 64);
    check(pthread_create(&audio, NULL, play_on, &r) == 0, "pthread_create");
    for (int i = 0; i < 50; i++) {
        set_all(s, &random);
        (*c)->set_parameter_normalised(c, VST3_PRESET, 0.5 + 0.5 * (double)random_sample(&random)); /* the preset */
        check(vst3_save(s, text, 1000) && vst3_load(s, text, strlen(text), 1000), "%s", text);
        (*s->processor)->get_tail_samples(s->processor);
        pause_us(2000);
    }
    static const char last[] = "haloconv plugin 1\nshipped cabinet.wav\nend\n";
    check(vst3_load(s, last, strlen(last), 1000), "%s", last);
    pthread_join(audio, NULL);
    s->setup.process_mode = V3_OFFLINE;
    r.n -= 64;
    recording_play(&r, 64);
    check(vst3_save(s, text, 1000) && strstr(text, "\nshipped cabinet.wav\n"), "the last mask is not there: %s", text);
    for (int ch = 0; ch < 2; ch++)
        for (int i = 0; i < r.n; i++) check(isfinite(r.out[ch][i]), "channel %d, frame %d", ch, i);
    recording_close(&r);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(classes_are_complete, false),
        TEST(the_module_info_is_that_of_the_factory, false),
        TEST(ids_stay, false),
        TEST(the_factory_refuses_what_it_does_not_have, false),
        TEST(buses_are_those_of_the_variant, false),
        TEST(lines_are_followed, false),
        TEST(what_is_missing_is_refused, false),
        TEST(a_missing_input_is_silence, false),
        TEST(hostile_points_are_limited, false),
        TEST(parameters_are_described, false),
        TEST(a_preset_is_a_choice_of_a_list, false),
        TEST(the_default_of_preset_is_that_of_a_new_instance, false),
        TEST(a_preset_that_cannot_be_loaded_is_chosen_again, false),
        TEST(a_state_waits_for_the_mask_of_its_preset, false),
        TEST(a_preset_is_that_of_the_side_that_plays, false),
        TEST(meters_are_parameters_that_only_show, false),
        TEST(states_are_those_of_clap, false),
        TEST(shown_values_are_not_those_that_play, false),
        TEST(the_window_works_while_blocks_play, false),
    };
    return check_main("vst3", tests, sizeof tests / sizeof *tests);
}
