#include "live_command.h"

#include "host/mask_argument.h"
#include "host/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MAX_DB = 60, MAX_STEPPED_DB = 40;
/* From below INAUDIBLE_DB a step up goes to FIRST_STEP_DB. */
static const double INAUDIBLE_DB = -80, FIRST_STEP_DB = -20;

const struct command_gain command_gains[COMMAND_GAINS] = {{"gain", HC_GAIN}, {"wet", HC_WET}, {"dry", HC_DRY}};

static int index_of(const struct option_names *masks, const char *path, int otherwise)
{
    for (int i = 0; i < masks->n; i++)
        if (strcmp(masks->list[i], path) == 0) return i;
    return otherwise;
}

/* Keeps masks ready: both of a comparison, B while A plays and A while B plays; else those around the one that plays. */
static void command_keep(const struct command_target *t)
{
    const int *ab = t->compares ? t->compared : (const int[]){t->mask, -1};
    session_keep(t->session, t->masks->list, t->masks->n, ab[0], ab[1]);
}

void command_target_open(struct command_target *t, struct session *session, const struct option_names *masks,
                         const char *mask)
{
    *t = (struct command_target){.session = session, .masks = masks, .mask = index_of(masks, mask, 0)};
    watch_open(&t->watch, mask, session_rate(session));
    command_keep(t);
}

void command_target_close(struct command_target *t)
{
    option_names_free(&t->own);
}

/* Compares texts, not indices: the list may have a mask twice. */
int command_mask_number(const struct command_target *t, const char *path)
{
    bool is_last = t->masks->n > 0 && strcmp(t->masks->list[t->mask], path) == 0;
    return 1 + (is_last ? t->mask : index_of(t->masks, path, -1));
}

static bool end_comparison(struct command_target *t)
{
    t->compares = false;
    return session_compare(t->session, NULL, NULL);
}

/* Ends the comparison if the mask that is asked for is neither A nor B. */
static bool command_load(struct command_target *t, const char *path)
{
    bool is_a_or_b = t->compares && (strcmp(path, t->masks->list[t->compared[0]]) == 0 ||
                                     strcmp(path, t->masks->list[t->compared[1]]) == 0);
    if (t->compares && !is_a_or_b) end_comparison(t);
    t->request = session_request_mask(t->session, path);
    watch_open(&t->watch, path, session_rate(t->session));
    command_keep(t);
    return true;
}

static bool check_number(const struct command_target *t, int number, char *why, size_t cap)
{
    int n = t->masks->n;
    if (number >= 1 && number <= n) return true;
    return message_write(why, cap, "mask %d does not exist; the list has %d mask%s", number, n, message_s(n));
}

static bool load_nth(struct command_target *t, int number, char *why, size_t cap)
{
    if (t->masks->n == 0) return message_write(why, cap, "the list of masks is empty; name masks on the command line");
    if (!check_number(t, number, why, cap)) return false;
    t->mask = number - 1;
    return command_load(t, t->masks->list[t->mask]);
}

static bool load_other(struct command_target *t, int step, char *why, size_t cap)
{
    int n = t->masks->n;
    return load_nth(t, n ? (t->mask + step + n) % n + 1 : 0, why, cap);
}

static bool load_path(struct command_target *t, const char *path, char *why, size_t cap)
{
    if (strlen(path) >= sizeof t->watch.path)
        return message_write(why, cap, "the path has %zu bytes or more; use a shorter one", sizeof t->watch.path);
    path = mask_argument_path(path);
    t->mask = index_of(t->masks, path, t->mask);
    return command_load(t, path);
}

static bool reload(struct command_target *t)
{
    char path[sizeof t->watch.path];
    memcpy(path, t->watch.path, sizeof path);
    return command_load(t, path);
}

/* Makes copies of the masks, and of one more (NULL: none), the list. false: no memory, and nothing has changed. */
static bool set_list(struct command_target *t, const struct option_names *masks, const char *more)
{
    struct option_names list = {.list = calloc((size_t)masks->n + 1, sizeof *list.list)}, old = t->own;
    int n = list.list ? masks->n + (more != NULL) : -1;
    for (; list.n < n; list.n++)
        if (!(list.list[list.n] = strdup(list.n < masks->n ? masks->list[list.n] : more))) break;
    if (list.n != n) {
        option_names_free(&list);
        return false;
    }
    t->own = list;
    t->masks = &t->own;
    t->list_version++;
    if (t->mask >= list.n) t->mask = 0;
    command_keep(t); /* forgets the texts of the old list */
    option_names_free(&old);
    return true;
}

static bool command_add_mask(struct command_target *t, const char *path, char *why, size_t cap)
{
    path = mask_argument_path(path);
    if (strlen(path) >= sizeof t->watch.path)
        return message_write(why, cap, "the path has %zu bytes or more; use a shorter one", sizeof t->watch.path);
    if (index_of(t->masks, path, -1) >= 0) return true;
    size_t bytes = strlen(path);
    for (int i = 0; i < t->masks->n; i++) bytes += strlen(t->masks->list[i]);
    if (t->masks->n >= COMMAND_MAX_MASKS || bytes > COMMAND_MAX_BYTES)
        return message_write(why, cap, "the list has %d masks already; start again with fewer", t->masks->n);
    return set_list(t, t->masks, path) || message_write(why, cap, "no memory for the list; free some memory");
}

/* The index of a mask that a command names by path or number, or `otherwise` if it names none. -1: why has the reason. */
static int find_named(const struct command_target *t, const char *path, int number, int otherwise, char *why,
                      size_t cap)
{
    if (!path && number == 0) return otherwise;
    if (!path) return check_number(t, number, why, cap) ? number - 1 : -1;
    int i = index_of(t->masks, mask_argument_path(path), -1);
    if (i < 0) message_write(why, cap, "%s is not in the list of masks; name it on the command line", path);
    return i;
}

static bool compare(struct command_target *t, const struct command *command, char *text, size_t cap)
{
    int n = t->masks->n;
    if (n < 2) return message_write(text, cap, "a comparison needs two masks; name them on the command line");
    int a = find_named(t, command->path, command->number, t->mask, text, cap);
    if (a < 0) return false;
    int b = find_named(t, command->other_path, command->other, (a + 1) % n, text, cap);
    if (b < 0) return false;
    char *const *list = t->masks->list;
    if (strcmp(list[a], list[b]) == 0) return message_write(text, cap, "A and B are the same mask; name another");
    session_keep(t->session, list, n, a, b);
    if (!session_compare(t->session, list[a], list[b]))
        return message_write(text, cap,
                             "no two masks are kept ready; give --preload 1 or more (banks are never compared)");
    t->compares = true;
    t->compared[0] = a;
    t->compared[1] = b;
    if (strcmp(t->watch.path, list[command->on ? b : a]) != 0) load_nth(t, a + 1, text, cap);
    message_write(text, cap, "A/B at equal loudness: A %s, B %s", list[a], list[b]);
    return true;
}

bool command_begin_comparison(struct command_target *t, const struct live_settings *s, char *text, size_t cap)
{
    const int *ab = s->compared;
    return !*ab ||
           compare(t, &(struct command){.number = ab[0], .other = ab[1], .on = s->first_mask == ab[1]}, text, cap);
}

static bool switch_compared(struct command_target *t, char *text, size_t cap)
{
    if (!t->compares) return compare(t, &(struct command){.act = COMMAND_COMPARE}, text, cap);
    return load_nth(t, t->compared[t->mask == t->compared[0] ? 1 : 0] + 1, text, cap);
}

static bool set_gain(struct command_target *t, const struct command_gain *gain, double db, char *text, size_t cap)
{
    if (!(db <= MAX_DB)) /* NaN is not */
        return message_write(text, cap, "%s needs a gain of at most %.0f dB, or off", gain->name, MAX_DB);
    session_set(t->session, gain->knob, (float)pow(10, db / 20));
    message_write(text, cap, "%s %s", gain->name, db < INAUDIBLE_DB ? "off" : message_db(db, 0, "dB").text);
    return true;
}

static bool command_turn(struct command_target *t, const struct command_gain *gain, double step_db, char *text,
                         size_t cap)
{
    double db = 20 * log10((double)session_get(t->session, gain->knob));
    bool is_off = db < INAUDIBLE_DB;
    if (is_off)
        db = step_db > 0 ? FIRST_STEP_DB : -INFINITY;
    else
        db = step_db > 0 ? fmax(db, fmin(db + step_db, MAX_STEPPED_DB)) : db + step_db;
    return set_gain(t, gain, db, text, cap);
}

static bool set_bypass(struct command_target *t, bool on)
{
    session_set(t->session, HC_BYPASS, on);
    return true;
}

/* Puts the sources where a preset has them. */
static void place(struct live_scene *scene, const struct live_scene_settings *s)
{
    if (!scene || s->n_positions == 0) return;
    live_scene_change(scene, &(struct scene_change){.act = SCENE_DISTANCE_GAIN, .values = {s->reference, s->min_m}},
                      NULL, 0);
    for (int i = 0; i < s->n_positions; i++) {
        struct scene_change change = {.act = SCENE_AED, .source = s->positions[i].source};
        memcpy(change.values, s->positions[i].aed, sizeof s->positions[i].aed);
        live_scene_change(scene, &change, NULL, 0);
    }
}

static bool play_masks(struct command_target *t, const struct live_settings *s, char *text, size_t cap)
{
    if (s->masks.n == 0) return true;
    if (t->compares) end_comparison(t);
    if (!set_list(t, &s->masks, NULL)) return message_write(text, cap, "no memory for the list; free some memory");
    return load_nth(t, s->first_mask ? s->first_mask : 1, text, cap) && command_begin_comparison(t, s, text, cap);
}

/* A preset that names what cannot change while it plays is applied, too, but refused in words. */
static bool apply_preset(struct command_target *t, const char *name, char *text, size_t cap)
{
    struct live_settings *s = t->settings ? malloc(sizeof *s) : NULL;
    char others[200];
    if (!s) return message_write(text, cap, "this session plays no presets; start haloconv run %s", name);
    if (!live_options_read_preset(t->settings, name, s, others, sizeof others, text, cap)) {
        free(s);
        return false;
    }
    const float gains[COMMAND_GAINS] = {s->session.gain, s->session.wet, s->session.dry};
    for (int i = 0; i < COMMAND_GAINS; i++) session_set(t->session, command_gains[i].knob, gains[i]);
    set_bypass(t, s->session.bypass);
    place(session_scene(t->session), &s->scene);
    bool good = play_masks(t, s, text, cap);
    live_options_free(s);
    free(s);
    if (!good) return false;
    message_write(text, cap, "preset %s", name);
    return !*others || message_write(text, cap, "masks and gains are those of the preset; for %s start haloconv run %s",
                                     others, name);
}

/* Does the state have what no preset has: gains, mutes and entries of sources, and the listener? */
static bool has_more(const struct live_scene_settings *s)
{
    bool has = s->listener_at[0] != 0 || s->listener_at[1] != 0 || s->listener_at[2] != 0;
    for (int i = 0; i < s->n_positions; i++)
        has = has || s->positions[i].gain_db != 0 || s->positions[i].is_muted || s->positions[i].entry >= 0;
    return has;
}

static bool save_preset(struct command_target *t, const char *name, bool replace, char *text, size_t cap)
{
    char playing[sizeof t->watch.path] = "";
    struct live_settings *s = t->settings ? malloc(sizeof *s) : NULL;
    if (!s) return message_write(text, cap, "this session saves no presets");
    *s = *t->settings;
    hc_live_mask(session_live(t->session), playing, sizeof playing);
    bool is_last = t->masks->n > 0 && strcmp(t->masks->list[t->mask], playing) == 0;
    s->masks = *t->masks;
    s->mask = playing;
    s->first_mask = (is_last ? t->mask : index_of(t->masks, playing, t->masks->n)) + 1;
    for (int i = 0; i < 2; i++) s->compared[i] = t->compares ? t->compared[i] + 1 : 0;
    s->session.gain = session_get(t->session, HC_GAIN);
    s->session.wet = session_get(t->session, HC_WET);
    s->session.dry = session_get(t->session, HC_DRY);
    s->session.bypass = session_get(t->session, HC_BYPASS) != 0;
    s->scene = (struct live_scene_settings){0};
    if (session_scene(t->session)) live_scene_record(session_scene(t->session), &s->scene);
    bool good = live_options_save_preset(s, name, replace, text, cap);
    if (good) {
        snprintf(t->saved, sizeof t->saved, "%s", text);
        message_write(text, cap, "saved: haloconv run %s%s", t->saved,
                      has_more(&s->scene) ? "; without gains, mutes and entries of sources, and the listener" : "");
    }
    free(s);
    return good;
}

static bool recentre(struct command_target *t, char *text, size_t cap)
{
    struct live_scene *scene = session_scene(t->session);
    if (!scene) return message_write(text, cap, "the session has no sources; start it with a bank");
    live_scene_change(scene, &(struct scene_change){.act = SCENE_RECENTRE}, NULL, 0);
    message_write(text, cap, "the head's orientation is now the front");
    return true;
}

bool command_loads_mask(enum command_act act)
{
    const unsigned loading = 1u << COMMAND_MASK | 1u << COMMAND_MASK_NUMBER | 1u << COMMAND_MASK_STEP |
                             1u << COMMAND_PRESET | 1u << COMMAND_RELOAD | 1u << COMMAND_COMPARE |
                             1u << COMMAND_COMPARE_SWITCH;
    return loading >> act & 1;
}

bool command_apply(struct command_target *t, const struct command *command, char *text, size_t cap)
{
    if (cap) *text = 0;
    switch (command->act) {
    case COMMAND_NONE:
        break;
    case COMMAND_MASK:
        return load_path(t, command->path, text, cap);
    case COMMAND_MASK_NUMBER:
        return load_nth(t, command->number, text, cap);
    case COMMAND_MASK_STEP:
        return load_other(t, command->number, text, cap);
    case COMMAND_MASK_ADD:
        return command_add_mask(t, command->path, text, cap);
    case COMMAND_PRESET:
        return apply_preset(t, command->path, text, cap);
    case COMMAND_PRESET_SAVE:
        return save_preset(t, command->path, command->on, text, cap);
    case COMMAND_RELOAD:
        return reload(t);
    case COMMAND_GAIN:
        return set_gain(t, command->gain, command->db, text, cap);
    case COMMAND_GAIN_STEP:
        return command_turn(t, command->gain, command->db, text, cap);
    case COMMAND_BYPASS:
        return set_bypass(t, command->on);
    case COMMAND_BYPASS_TOGGLE:
        return set_bypass(t, session_get(t->session, HC_BYPASS) == 0);
    case COMMAND_COMPARE:
        return compare(t, command, text, cap);
    case COMMAND_COMPARE_SWITCH:
        return switch_compared(t, text, cap);
    case COMMAND_COMPARE_END:
        return end_comparison(t);
    case COMMAND_RECENTRE:
        return recentre(t, text, cap);
    case COMMAND_QUIT:
        return t->end = true;
    }
    return true;
}
