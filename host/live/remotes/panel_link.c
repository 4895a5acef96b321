#include "panel_link.h"

#include "host/json_print.h"
#include "host/message.h"
#include "host/live/session/preset.h"
#include "host/live/session/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HANDLED = 64 };     /* messages in a turn: the keys must not wait for long */
enum { MAX_LISTED = 1 << 19 }; /* bytes of the masks in /hello, each with 16 for its number and signs */
static const double METERS_S = 0.1, SCENE_S = 0.05, HELLO_S = 0.25, PRESETS_S = 1;
static const double SILENT_DB = -150;

struct panel_link {
    struct panel *panel;
    struct remote *remote;
    struct command_target *target;
    int n_in, n_out;
    float *peaks; /* [n_in + n_out] */
    struct report_levels levels;
    double next_meters, next_scene, next_hello, next_presets;
    struct option_names presets;
    int n_looks;     /* for presets */
    char saved[128]; /* the preset that was saved last when the link looked */
    json_t *scene;   /* as it was sent last; NULL: not sent yet */
    int compared[2]; /* numbers of A and B as they were sent last */
    json_t *session; /* changes with what /hello and panel_set_session say; NULL: not said yet */
};

/* ---- answers ----------------------------------------------------------------------------------- */

/* JSON has no infinity: a gain of -INFINITY is "off", as in messages. */
static json_t *panel_number(double value)
{
    return value == -INFINITY ? json_string("off") : json_number(value);
}

/* An osc_sender. */
static void send_answer(const struct osc_peer *to, const char *path, const char *types, va_list args)
{
    json_t *json = json_array();
    json_array_append_new(json, json_text(path));
    for (; *types; types++)
        json_array_append_new(json, *types == 's'   ? json_text(va_arg(args, const char *))
                                    : *types == 'f' ? panel_number(va_arg(args, double))
                                                    : json_integer(va_arg(args, int)));
    panel_send(to->panel, to->client, json);
    json_decref(json);
}

/* ---- messages ---------------------------------------------------------------------------------- */

static bool panel_is_number(const json_t *json)
{
    return json_is_number(json) || json_is_boolean(json);
}

static double panel_number_of(const json_t *json)
{
    return json_is_true(json) ? 1 : json_number_value(json);
}

/* Reads an array as osc.c reads a packet. The texts are those of the array. */
static void panel_link_read_message(const json_t *json, struct osc_message *read)
{
    const json_t *first = json_array_get(json, 1), *arg;
    *read = (struct osc_message){.path = json_string_value(json_array_get(json, 0)),
                                 .n_args = (int)json_array_size(json) - 1,
                                 .text = json_string_value(first),
                                 .has_number = panel_is_number(first),
                                 .number = panel_number_of(first),
                                 .second = panel_number_of(json_array_get(json, 2))};
    for (int i = 0;
         i < read->n_args && i < OSC_MAX_NUMBERS && panel_is_number(arg = json_array_get(json, (size_t)i + 1)); i++)
        read->numbers[read->n_numbers++] = panel_number_of(arg);
    for (int i = 0; i < read->n_args && read->n_texts < OSC_MAX_TEXTS; i++)
        if (json_is_string(arg = json_array_get(json, (size_t)i + 1)))
            read->texts[read->n_texts++] = json_string_value(arg);
}

void panel_link_handle(struct panel_link *l, const struct panel_message *message)
{
    struct osc_peer from = {.send = send_answer, .panel = l->panel, .client = message->client};
    struct osc_message read;
    panel_link_read_message(message->json, &read);
    read.from = &from;
    remote_handle(l->remote, &read);
}

bool panel_link_loads_mask(const json_t *message)
{
    struct osc_message read;
    panel_link_read_message(message, &read);
    return remote_loads_mask(&read);
}

/* ---- what the panel shows ---------------------------------------------------------------------- */

static json_t *json_peaks(const float *peaks, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list,
                              json_real(fmin(-SILENT_DB, fmax(SILENT_DB, round(200 * log10((double)peaks[i])) / 10))));
    return list;
}

static void show_meters(struct panel_link *l)
{
    struct session_status status;
    hc_live_take_channel_peaks(session_live(l->target->session), l->peaks, l->peaks + l->n_in);
    session_get_status(l->target->session, &status);
    json_t *json =
        json_pack("[soofII]", "/meters", json_peaks(l->peaks, l->n_in), json_peaks(l->peaks + l->n_in, l->n_out),
                  round(10 * report_load(&status, &l->levels)) / 10,
                  (json_int_t)status.stats.late + (json_int_t)status.stats.lost, (json_int_t)status.xruns);
    report_levels_begin(&l->levels, &status);
    if (json) panel_show(l->panel, json);
    json_decref(json);
}

static void show_scene(struct panel_link *l, struct live_scene *scene)
{
    struct listener listener;
    double angles[3];
    json_t *list = json_array();
    for (int i = 0; i < live_scene_n_sources(scene); i++) {
        struct live_scene_source s;
        live_scene_get_source(scene, i, &s);
        json_array_append_new(list,
                              json_pack("[fffoi]", s.aed[0], s.aed[1], s.aed[2], panel_number(s.gain_db), s.is_muted));
    }
    live_scene_get_listener(scene, &listener);
    listener_angles(&listener, angles);
    json_t *json = json_pack("[so[fff][fff]]", "/scene", list, angles[0], angles[1], angles[2], listener.at[0],
                             listener.at[1], listener.at[2]);
    bool is_new = json && !(l->scene && json_equal(json, l->scene));
    if (is_new) panel_send(l->panel, 0, json);
    json_decref(is_new ? l->scene : json);
    if (is_new) l->scene = json;
}

/* Sends the numbers of A and B; client 0: to all, if they have changed. */
static void show_compared(struct panel_link *l, uint64_t client)
{
    const struct command_target *t = l->target;
    int a = t->compares ? t->compared[0] + 1 : 0, b = t->compares ? t->compared[1] + 1 : 0;
    if (client == 0 && a == l->compared[0] && b == l->compared[1]) return;
    json_t *json = json_pack("[sii]", "/ab/masks", a, b);
    if (json) panel_send(l->panel, client, json);
    json_decref(json);
    if (client == 0) memcpy(l->compared, (int[]){a, b}, sizeof l->compared);
}

static void find_presets(struct panel_link *l)
{
    const struct live_settings *settings = l->target->settings;
    l->n_looks++;
    option_names_free(&l->presets);
    l->presets = settings ? preset_names(settings->line->command) : (struct option_names){0};
}

static json_t *list_of(char *const *texts, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_text(texts[i]));
    return list;
}

/* Number of the first masks that /hello has room for. */
static int count_listed(const struct option_names *masks)
{
    size_t bytes = 0;
    int n = 0;
    while (n < masks->n && (bytes += strlen(masks->list[n]) + 16) <= MAX_LISTED) n++;
    return n;
}

/* The numbers of the masks that can be compared: all n, if any. */
static json_t *comparable(const struct command_target *t, int n)
{
    json_t *list = json_array();
    for (int i = 1; i <= n && session_can_compare(t->session); i++) json_array_append_new(list, json_integer(i));
    return list;
}

/* Describes the session, if it has changed. */
static void show_session(struct panel_link *l)
{
    struct session *session = l->target->session;
    const struct option_names *masks = l->target->masks;
    struct live_scene *scene = session_scene(session);
    struct session_status status;
    session_get_status(session, &status);
    json_t *key = json_pack("[iiissoi]", l->target->list_version, status.info.rate, status.info.block,
                            status.info.backend ? status.info.backend : "", status.info.device, json_text(status.mask),
                            l->n_looks);
    bool is_new = key && !(l->session && json_equal(key, l->session));
    json_decref(is_new ? l->session : key);
    if (!is_new) return;
    l->session = key;
    int n = count_listed(masks);
    json_t *hello =
        json_pack("{ss ss si si si si ss ss si so so so so so sb}", "version", HC_VERSION, "name", "haloconv", "rate",
                  status.info.rate, "block", status.info.block, "n_in", l->n_in, "n_out", l->n_out, "backend",
                  status.info.backend ? status.info.backend : "", "device", status.info.device, "sources",
                  scene ? live_scene_n_sources(scene) : 0, "masks", list_of(masks->list, n), "presets",
                  list_of(l->presets.list, l->presets.n), "ready", comparable(l->target, n), "plots", panel_plots(),
                  "bands", panel_bands(), "can_upload", scene == NULL);
    json_t *json = json_pack("[so]", "/hello", hello);
    if (json) panel_set_hello(l->panel, json);
    json_decref(json);
    panel_set_session(l->panel, &(struct panel_session){.live = session_live(session),
                                                        .n_in = l->n_in,
                                                        .n_out = l->n_out,
                                                        .rate = status.info.rate,
                                                        .mask = status.mask,
                                                        .masks = masks->list,
                                                        .n_masks = masks->n});
}

/* ---- the link ---------------------------------------------------------------------------------- */

static bool is_due(double *next, double period_s, double now)
{
    if (now < *next) return false;
    *next = fmax(*next + period_s, now);
    return true;
}

void panel_link_tend(struct panel_link *l, double now)
{
    struct panel_message message;
    struct live_scene *scene = session_scene(l->target->session);
    if (is_due(&l->next_hello, HELLO_S, now)) show_session(l);
    for (int i = 0; i < MAX_HANDLED && panel_next(l->panel, &message); i++) {
        panel_link_handle(l, &message);
        const char *path = json_string_value(json_array_get(message.json, 0));
        bool is_new = strcmp(path, "/subscribe") == 0;
        if (is_new && is_due(&l->next_presets, PRESETS_S, now)) find_presets(l);
        if (is_new) show_compared(l, message.client);
        if (is_new && l->scene) panel_send(l->panel, message.client, l->scene);
        json_decref(message.json);
    }
    show_compared(l, 0);
    if (strcmp(l->saved, l->target->saved) != 0 && is_due(&l->next_presets, PRESETS_S, now)) {
        memcpy(l->saved, l->target->saved, sizeof l->saved);
        find_presets(l);
    }
    if (panel_n_clients(l->panel) == 0) return;
    if (is_due(&l->next_meters, METERS_S, now)) show_meters(l);
    if (scene && is_due(&l->next_scene, SCENE_S, now)) show_scene(l, scene);
}

struct panel_link *panel_link_open(struct panel *panel, struct remote *remote, struct command_target *target)
{
    struct panel_link *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    *l = (struct panel_link){.panel = panel, .remote = remote, .target = target};
    session_channels(target->session, &l->n_in, &l->n_out);
    l->peaks = calloc((size_t)l->n_in + (size_t)l->n_out, sizeof *l->peaks);
    find_presets(l);
    if (l->peaks) {
        show_session(l); /* the first client may come at once */
        return l;
    }
    panel_link_close(l);
    return NULL;
}

void panel_link_close(struct panel_link *l)
{
    if (!l) return;
    panel_set_session(l->panel, NULL);
    option_names_free(&l->presets);
    json_decref(l->scene);
    free(l->peaks);
    json_decref(l->session);
    free(l);
}
