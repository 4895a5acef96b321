/* The CLAP plugin in a host: what CLAP alone has. plugin_promises_test.c has the promises of every standard. */
#include "clap_host.h"
#include "recording.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RATE = 48000, STATE_BYTES = PLUGIN_STATE_BYTES };

/* A plugin in a host that renders. */
static struct recording open_recording(const char *variant, int cap, struct clap_session **session)
{
    struct recording r = recording_open(&plugin_clap, &(struct plugin_setup){.variant = variant}, cap);
    *session = r.p->host;
    return r;
}

/* ---- the library -------------------------------------------------------------------------------- */

static void descriptors_are_complete(const char *backend)
{
    const clap_plugin_factory_t *factory = clap_factory();
    check(factory->get_plugin_count(factory) == N_VARIANTS, "%u plugins", factory->get_plugin_count(factory));
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
    struct clap_session *s;
    struct recording r = open_recording("stereo", 64, &s);
    check_log(&r, text);
    recording_close(&r);
    check(clap_library()->init(clap_file()), "init(%s)", clap_file());
}

static void masks_are_found_from_where_the_plugin_is(const char *backend)
{
    char folder[4096], command[20000], want[4200];
    const char *file = mask_file("x.wav", 1, 1, RATE, 1);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(file, '/') - file), file);
    snprintf(command, sizeof command,
             "cd %s && mkdir -p clap lv2 1/2/3/4/5/6 1/2/3/4/5/7 && ln -s %s lv2/haloconv.lv2 && ln -s %s 1/2/3/4/5/6/",
             folder, shipped_mask(""), clap_file());
    check(system(command) == 0, "%s", command);
    snprintf(want, sizeof want, "%s/lv2/haloconv.lv2/hall.wav: loaded", folder);
    check_found(folder, "clap/haloconv.clap", want);
    snprintf(want, sizeof want, "%s: loaded", shipped_mask("hall.wav")); /* where the link leads to */
    check_found(folder, "1/2/3/4/5/6/haloconv.clap", want);
    char *home = strdup(getenv("HOME") ? getenv("HOME") : "/");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", folder, 1); /* where it unpacks its own */
    snprintf(want, sizeof want, "%s/.cache/haloconv/masks-", folder);
    for (int i = 0; i < 2 && access(shipped_mask("../masks.tar"), F_OK) == 0; i++) /* without PLUGIN_MASKS=0 */
        check_found(folder, "1/2/3/4/5/7/haloconv.clap", i ? "/hall.wav: loaded" : want);
    unsetenv("HOME");
    check_found(folder, "1/2/3/4/5/7/haloconv.clap", "warning: the sound passes dry");
    setenv("HOME", home, 1);
    free(home);
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static void reset_forgets_while_a_mask_is_loaded(const char *backend)
{
    struct clap_session *s;
    struct recording r = open_recording("mono", 30000, &s);
    double give_up = now_s() + 60;
    recording_play_random(&r, 5000, 300, 1);
    clap_set_offline(s, false);
    clap_caught(s); /* from now on blocks and resets are trapped */
    clap_log(s);
    atomic_store(&s->n_logs_allowed, 0);
    check(s->presets->from_location(s->plugin, MORE_LOCATION_FILE, shipped_mask("hall.wav"), NULL), "hall.wav");
    while (!strstr(clap_log(s), "left channel")) {
        check(now_s() < give_up, "the file is not loaded");
        pause_us(200);
    }
    for (int i = 0; i < 2; i++) {
        int from = r.n;
        clap_reset(s);
        recording_play_random(&r, 5000, 300, 2);
        check_mix(&r, shipped_mask("cabinet.wav"), wet_only, from, from, r.n);
    }
    int from = r.n;
    clap_reset(s); /* the engine that is made before the next block has the earlier input */
    atomic_store(&s->n_logs_allowed, MAX_LOGS);
    clap_await_presets(s, 1);
    recording_play_random(&r, 3000, 300, 2);
    const char *caught = clap_caught(s);
    check(!caught, "the audio thread calls %s", caught);
    int there = r.n;
    recording_play_random(&r, 3000, 300, 3);
    check_mix(&r, shipped_mask("hall.wav"), wet_only, from, there, r.n);
    recording_close(&r);
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

/* The sound has it, the value of the host does not. */
static void a_modulation_changes_no_value(const char *backend)
{
    enum { N = 4096, AT = 1234, CAP = 30000 };
    const char *mask = mask_file("mix.wav", 2, 3000, RATE, 8);
    const double gain = pow(10, 2.0 / 20);
    struct clap_session *s, *other;
    double value;
    struct recording r = open_recording("stereo", CAP, &s), cut = open_recording("stereo", CAP, &other);
    clap_modulate(s, DRY, 84, AT);
    clap_set(s, ENABLED, 1, N + 5); /* the bypass, later than the block */
    recording_play(&r, N);
    recording_play(&cut, AT);
    clap_modulate(other, DRY, 84, 0);
    recording_play(&cut, N - AT);
    check_same(&r, &cut, 1e-6);
    check(s->params->get_value(s->plugin, control_id(DRY), &value) && value == -90, "it changes the value to %g",
          value);
    check(s->params->get_value(s->plugin, control_id(ENABLED), &value) && value == 1, "bypass is %g", value);
    clap_set(s, ENABLED, 0, 0);
    plugin_clap.choose(r.p, mask, 0);
    clap_set(s, GAIN, 3, 0);
    clap_modulate(s, GAIN, -1, 0);
    clap_modulate(s, DRY, 0, 0);
    recording_play_random(&r, 20000, 512, 4);
    check_mix(&r, mask, (struct mix){0, gain, 0}, 0, 14000, r.n);
    recording_close(&r), recording_close(&cut);
}

static void values_are_flushed(const char *backend)
{
    static const double given[] = {1e30, -1e30, NAN, -3, INFINITY}, kept[] = {12, -90, -90, -3, 12};
    struct clap_session *s;
    struct recording r = open_recording("stereo", 1000, &s);
    double value;
    for (int i = 0; i < 10; i++) {
        if (i == 5) plugin_deactivate(r.p);
        clap_set(s, WET, given[i % 5], 0);
        clap_set(s, LOAD, 50, 0); /* not a parameter */
        s->params->flush(s->plugin, clap_events(s), NULL);
        check(s->params->get_value(s->plugin, control_id(WET), &value) && value == kept[i % 5], "%g became %g",
              given[i % 5], value);
    }
    s->params->flush(s->plugin, NULL, NULL);
    clap_event_param_value_t e = {.header = {sizeof e, 0, 77, CLAP_EVENT_PARAM_VALUE, 0}, .param_id = control_id(WET)};
    clap_send(s, &e.header); /* another space */
    e.header = (clap_event_header_t){sizeof e.header, 0, CLAP_CORE_EVENT_SPACE_ID, CLAP_EVENT_PARAM_VALUE, 0};
    clap_send(s, &e.header); /* cut */
    s->params->flush(s->plugin, clap_events(s), NULL);
    check(s->params->get_value(s->plugin, control_id(WET), &value) && value == 12, "a foreign event sets %g", value);
    recording_close(&r);
}

static void a_host_without_extensions_has_values_and_states(const char *backend)
{
    char text[STATE_BYTES], again[STATE_BYTES];
    struct clap_session *a = clap_open("stereo", true), *b = clap_open("stereo", false);
    clap_set(a, WET, -11, 0);
    clap_flush(a);
    check(b->params->count(b->plugin) == 8 && clap_save(a, text, 100), "parameters, or a state");
    check(clap_load(b, text, strlen(text), 7) && clap_save(b, again, STATE_BYTES) && strcmp(text, again) == 0,
          "%s became %s", text, again);
    check(strstr(text, "\nwet -11\n"), "%s", text);
    clap_close(a), clap_close(b);
}

/* ---- presets ------------------------------------------------------------------------------------ */

static void a_preset_that_cannot_be_loaded_is_reported(const char *backend)
{
    const char *broken = text_file("broken.txt", "1\nnan\n");
    struct clap_session *s;
    struct recording r = open_recording("mono", 8000, &s);
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
        int before = s->n_errors;
        check(s->presets->from_location(s->plugin, bad[i].kind, bad[i].location, bad[i].key) == bad[i].is_asked,
              "preset %zu", i);
        if (bad[i].is_asked) clap_await_presets(s, before + 1);
        check(s->n_errors == before + 1 && s->error[0] && s->n_loaded == 0, "preset %zu: not reported", i);
    }
    check(strstr(s->error, "broken.txt"), "%s", s->error);
    recording_play_random(&r, 4000, 100, 1);
    check_mix(&r, shipped_mask("cabinet.wav"), wet_only, 0, 0, r.n);
    recording_close(&r);
}

static void check_answers(const struct clap_session *s, int n, const char *last)
{
    check(s->n_loaded + s->n_errors == n && strcmp(s->last, last) == 0, "%d answers, the last for %s; want %d, %s",
          s->n_loaded + s->n_errors, s->last, n, last);
}

/* Each request has one answer, also if another comes before the end of its load. */
static void a_preset_is_answered_when_its_own_load_ends(const char *backend)
{
    struct clap_session *s;
    struct recording r = open_recording("mono", 8000, &s);
    const char *other = text_file("other.txt", "1\n0.5\n");
    double give_up = now_s() + 60;
    clap_log(s);
    atomic_store(&s->n_logs_allowed, 0);
    check(s->presets->from_location(s->plugin, MORE_LOCATION_FILE, other, NULL), "%s", other);
    while (!strstr(clap_log(s), "other.txt")) {
        check(now_s() < give_up, "the file is not loaded");
        pause_us(200);
    }
    check(s->presets->from_location(s->plugin, MORE_LOCATION_PLUGIN, NULL, "cabinet"), "the first preset");
    check_answers(s, 1, other);
    check(s->presets->from_location(s->plugin, MORE_LOCATION_PLUGIN, NULL, "spring"), "the second preset");
    check_answers(s, 2, "cabinet");
    check(s->n_loaded < 2, "cabinet, which was not loaded, counts as loaded");
    check(!s->presets->from_location(s->plugin, MORE_LOCATION_FILE, "/nonexistent.wav", NULL), "a missing file");
    check_answers(s, 3, "/nonexistent.wav");
    const char *long_key = "a key that is longer than any key of a preset";
    check(!s->presets->from_location(s->plugin, MORE_LOCATION_PLUGIN, NULL, long_key), "%s", long_key);
    check_answers(s, 4, long_key);
    atomic_store(&s->n_logs_allowed, MAX_LOGS);
    clap_await_presets(s, 5);
    check_answers(s, 5, "spring");
    recording_play_random(&r, 4000, 100, 1);
    int from = r.n;
    recording_play_random(&r, 4000, 100, 1);
    check_mix(&r, shipped_mask("spring.wav"), (struct mix){1, pow(10, -12.0 / 20), 0}, 0, from, r.n);
    recording_close(&r);
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

int main(void)
{
    static const struct test tests[] = {
        TEST(descriptors_are_complete, false),
        TEST(the_factory_refuses_what_it_does_not_have, false),
        TEST(ports_are_those_of_the_variant, false),
        TEST(masks_are_found_from_where_the_plugin_is, false),
        TEST(reset_forgets_while_a_mask_is_loaded, 0),
        TEST(what_is_missing_is_refused, false),
        TEST(calls_in_a_wrong_order_do_nothing, false),
        TEST(calls_on_a_wrong_thread_are_refused, false),
        TEST(parameters_are_described, false),
        TEST(a_modulation_changes_no_value, false),
        TEST(values_are_flushed, false),
        TEST(a_host_without_extensions_has_values_and_states, false),
        TEST(a_preset_is_answered_when_its_own_load_ends, 0),
        TEST(a_preset_that_cannot_be_loaded_is_reported, false),
        TEST(presets_are_discovered, false),
    };
    return check_main("clap", tests, sizeof tests / sizeof *tests);
}
