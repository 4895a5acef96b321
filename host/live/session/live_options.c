#include "live_options.h"

#include "dsp/base/number.h"
#include "host/message.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In hc_live_config 0 means the default; a 0 that the user gives becomes another number. */
static bool read_fade(const struct option_use *use, void *to)
{
    double *fade_ms = to;
    if (!option_number(use, to)) return false;
    if (*fade_ms == 0) *fade_ms = -1;
    return true;
}

static bool read_standby(const struct option_use *use, void *to)
{
    double *share = to;
    if (!option_number(use, to)) return false;
    *share = *share > 0 ? *share / 100 : -1;
    return true;
}

static bool read_wait(const struct option_use *use, void *to)
{
    int *wait_us = to;
    if (!option_int(use, to)) return false;
    if (*wait_us == 0) *wait_us = HC_WAIT_NONE;
    return true;
}

/* Reads "PORT" or "HOST:PORT", for OSC or a panel, and checks the range in the row: getaddrinfo reads 99999 as 34463.
 */
static bool options_read_port(const struct option_use *use, void *to)
{
    const char *colon = strrchr(use->text, ':');
    const struct option_use port = {use->command, use->row, colon ? colon + 1 : use->text, use->where};
    int number;
    return option_int(&port, &number) && option_text(use, to);
}

/* Reads "3:30,0,2": source, azimuth, elevation, distance. */
static bool read_position(const struct option_use *use, void *to)
{
    struct live_scene_settings *scene = to;
    struct live_scene_position position = {.aed = {0, 0, 1}, .entry = -1};
    char *end;
    long source = strtol(use->text, &end, 10);
    bool good = end > use->text && *end == ':' && source >= 1 && source <= LIVE_SCENE_MAX_SOURCES;
    if (!good || number_list_read(end + 1, position.aed, 3) < 2 || !isfinite(position.aed[0]) ||
        fabs(position.aed[1]) > 90 || !(position.aed[2] >= 0 && position.aed[2] <= LIVE_SCENE_MAX_METRES))
        return option_refuse(
            use, "needs N:AZIMUTH,ELEVATION[,DISTANCE], elevation from -90 to 90 and distance up to %d, as in 3:30,0,2",
            LIVE_SCENE_MAX_METRES);
    position.aed[0] = remainder(position.aed[0], 360);
    position.source = (int)source - 1;
    if (scene->n_positions == LIVE_SCENE_MAX_SOURCES)
        return option_refuse(use, "there are %d positions already; give fewer", LIVE_SCENE_MAX_SOURCES);
    scene->positions[scene->n_positions++] = position;
    return true;
}

/* Reads "1" or "1,0.25": the distance of 0 dB, and the minimum distance. */
static bool read_distance_gain(const struct option_use *use, void *to)
{
    struct live_scene_settings *scene = to;
    double list[2] = {0};
    int n = number_list_read(use->text, list, 2);
    double reference = list[0], min_m = n == 2 ? list[1] : reference / 4;
    if (n == 0 || !live_scene_is_distance_gain(reference, min_m))
        return option_refuse(use, "needs one or two distances in metres, 0.001 to %d, as in 1,0.25",
                             LIVE_SCENE_MAX_METRES);
    scene->reference = reference;
    scene->min_m = min_m;
    return true;
}

/* Reads "2,5": the numbers of masks A and B. */
static bool read_compared(const struct option_use *use, void *to)
{
    char *end;
    long a = strtol(use->text, &end, 10), b = *end == ',' ? strtol(end + 1, &end, 10) : 0;
    bool good = !*end && a >= 1 && a <= INT_MAX && b >= 1 && b <= INT_MAX && a != b;
    memcpy(to, (int[]){(int)a, (int)b}, 2 * sizeof(int));
    return good || option_refuse(use, "needs the numbers of two masks in the list, as in 1,2");
}

const struct option_row live_options[] = {
    {"inputs", 0, "N", "Input channels [as suits the mask: 2 if it has 1 or 4 channels, else its channel count]",
     option_int, LIVE_OPTION_TO(session.n_inputs), .min = 1, .max = 1024},
    {"sources", 0, "N",
     "With a bank: the number of sources, each with a separate input. OSC moves them, and the listener [1]", option_int,
     LIVE_OPTION_TO(session.live.n_sources), .min = 1, .max = LIVE_SCENE_MAX_SOURCES},
    {"place", 0, "N:AZ,EL[,DIST]",
     "First position of source N: azimuth in degrees, counter-clockwise from ahead, elevation, and distance in metres. "
     "Give it once for each source [in front, from the left to the right, 1 m away]",
     read_position, LIVE_OPTION_TO(scene)},
    {"nearest", 0, NULL,
     "With a bank: a source plays the entry nearest to its direction. It needs less time, and steps as it moves",
     option_set, LIVE_OPTION_TO(session.live.mix_entries), .min = HC_MIX_NONE},
    {"mix", 0, NULL,
     "With a bank: a source plays a mix of the entries around its direction. Entries that begin more than 20 us apart "
     "are not mixed; without --grid a bank is interpolated to 2 degrees if it needs it [the default]",
     option_set, LIVE_OPTION_TO(session.live.mix_entries), .min = 1},
    {"grid", 0, "DEG|off",
     "Interpolate the bank, when it is loaded, to directions this many degrees apart, 0.5 to 45 [2 if a mix needs "
     "them]",
     option_grid, LIVE_OPTION_TO(session.live.grid_deg), .min = 0.5, .max = 45},
    {"glide", 0, "MS",
     "Time in which a source glides to the position of a message, and the listener's head to its orientation; 0: they "
     "jump [1.25 times the time between two messages plus a block; 10 to 50]",
     read_fade, LIVE_OPTION_TO(session.live.glide_ms), .max = 1000},
    {"normalise", 0, NULL, "Scale the bank to a largest gain of 0 dB", option_set,
     LIVE_OPTION_TO(session.live.normalise), .min = 1},
    {"distance-gain", 0, "REF[,MIN]",
     "Gain of a source by its distance: 0 dB at REF metres, 6 dB less at twice the distance, and constant nearer than "
     "MIN [no gain by distance; MIN: a quarter of REF]",
     read_distance_gain, LIVE_OPTION_TO(scene)},
    {"gain", 0, "DB", "Gain of the whole output [0]", option_db_float, LIVE_OPTION_TO(session.gain)},
    {"wet", 0, "DB", "Gain of the convolved signal, or off [0]", option_db_float, LIVE_OPTION_TO(session.wet)},
    {"dry", 0, "DB", "Gain of the input in the output, or off [off]", option_db_float, LIVE_OPTION_TO(session.dry)},
    {"bypass", 0, NULL, "Begin bypassed: the input passes unchanged until a key or message ends that", option_flag,
     LIVE_OPTION_TO(session.bypass)},
    {"first-mask", 0, "N", "Begin with mask N of the list [1]", option_int, LIVE_OPTION_TO(first_mask), .min = 1,
     .max = INT_MAX},
    {"ab", 0, "A,B", "Begin with a comparison of two masks, by their numbers, at equal loudness", read_compared,
     LIVE_OPTION_TO(compared)},
    {"fade", 0, "MS", "Crossfade to a new mask [10]", read_fade, LIVE_OPTION_TO(session.live.fade_ms), .max = 10000},
    {"backend", 0, "BACKEND",
     "auto, cpu, cuda or cuda:N; cuda:launched: no kernel stays on the GPU between blocks, which saves power; or "
     "hybrid or hybrid:N: the CPU convolves with the first taps in the callback (21 ms, "
     "or two blocks if they are longer), and the GPU with the others in parallel. The callback then makes no call to "
     "the GPU, so that many sessions can share one; if the GPU is late, only the tail is missing. hybrid:cpu computes "
     "the tail in another thread of the CPU [auto]",
     option_backend_live, LIVE_OPTION_TO(session.live.backend)},
    OPTION_METHOD(LIVE_OPTION_TO(session.live.method)),
    {"standby", 0, "PERCENT",
     "Largest share of a core for a standby engine on the CPU. It processes the same input in another thread, and "
     "replaces a GPU that is lost or late within the same block, with the full history. If the mask needs a larger "
     "share, the input passes unchanged after such a loss. With 0 there is no standby engine: an engine on the CPU is "
     "built when the GPU fails, and plays a moment later [60]",
     read_standby, LIVE_OPTION_TO(session.live.standby_share), .max = 100, .old_name = "understudy"},
    {"wait-us", 0, "N", "Longest wait for a GPU in a block [half the block's time]", read_wait,
     LIVE_OPTION_TO(session.live.wait_us), .max = 10000000},
    {"spin", 0, NULL,
     "The device thread of a GPU polls for the next block without sleeping: its answer comes 5 us sooner, and a core "
     "is busy",
     option_set, LIVE_OPTION_TO(session.live.spin), .min = 1},
    {"late", 0, "silence|dry",
     "Output for a block that a GPU did not compute in time. Such blocks are counted, and the history keeps their "
     "input. With hybrid, silence is the block without its tail [silence]",
     option_choice, LIVE_OPTION_TO(session.live.late_dry)},
    {"no-resample", 0, NULL, "Use the mask's samples unchanged, whatever its rate", option_set,
     LIVE_OPTION_TO(session.live.keep_rate), .min = 1},
    {"watch", 0, NULL,
     "Load the mask again whenever its file changes. SIGHUP loads it at once. The new mask is crossfaded to; one that "
     "fails to load, or has more channels than the session, changes nothing, and the reason is printed",
     option_flag, LIVE_OPTION_TO(watch)},
    {"preload", 0, "N",
     "Keep at most N masks of the list ready besides the one that plays, from the next in the list on: keys and "
     "messages then begin a crossfade to them with the next block. Each of these masks needs memory, and on another "
     "processor as much time as the one that plays. With 0, or with --spin by default, a mask is loaded when it is "
     "asked for [all, in a quarter of the memory and 60 % of a processor]",
     option_int, LIVE_OPTION_TO(session.preload), .max = 31},
    {"osc", 0, "[HOST:]PORT",
     "Accept OSC messages over UDP, from this machine only unless HOST is given (0.0.0.0: from anywhere); port 0 "
     "chooses a free one. Messages: /mask PATH, NAME or NUMBER, /next, /prev, /reload, /gain DB, /wet DB, /dry DB (or "
     "off), "
     "/bypass 0|1, /ab to compare two masks, /source/N/aed, /listener/xyz, /ypr and others for a bank's sources, "
     "/subscribe for all changes, and /stats for the statistics as JSON. "
     "haloconv-osc(7) has the answers. A message that fails is answered by /error with the reason",
     options_read_port, LIVE_OPTION_TO(osc), .max = 65535},
    {"panel", 0, "[HOST:]PORT",
     "Show a page in the browser with meters, spectra, masks, gains, sources and the log, at an address that is "
     "printed, "
     "from this machine only unless HOST is given (0.0.0.0: from anywhere, with the token in the printed address); "
     "port "
     "0 chooses a free one. haloconv-osc(7) has the protocol, for panels of others",
     options_read_port, LIVE_OPTION_TO(panel.where), .max = 65535},
    {"panel-folder", 0, "DIR",
     "Store the masks that the panel uploads in this folder [a new one in $XDG_RUNTIME_DIR or /tmp, removed at the "
     "end]",
     option_text, LIVE_OPTION_TO(panel.folder)},
    {"midi", 0, NULL,
     "Make a MIDI input, and apply its messages: port midi-in of jack and pipewire, or a port of ALSA's sequencer with "
     "live. "
     "Program N selects mask N; controllers 20, 21 and 22 set wet, dry and gain; 80 bypasses; 81, 82 and 83 play the "
     "next and the previous mask, and load the mask again",
     option_flag, LIVE_OPTION_TO(midi.on)},
    {"midi-map", 0, "FILE",
     "The map of MIDI messages, instead of that of --midi: lines such as 'cc 20 wet -57 6', 'cc 80 bypass', 'note "
     "60 next', 'note 61 mask 3', 'program mask'. Turns --midi on, as --midi-channel and --midi-connect do",
     option_text, LIVE_OPTION_TO(midi.map)},
    {"midi-channel", 0, "N", "Obey this MIDI channel only [all]", option_int, LIVE_OPTION_TO(midi.channel), .min = 1,
     .max = 16},
    {"midi-connect", 0, "NAME",
     "Connect the MIDI input to this output, now or when it appears: a part of the name of a JACK port, or with live "
     "CLIENT[:PORT] of ALSA's sequencer",
     option_text, LIVE_OPTION_TO(midi.connect)},
    {"stats", 0, "FILE", "At the end, write the statistics as one JSON object; - is standard output", option_text,
     LIVE_OPTION_TO(stats)},
    {"preset", 0, "NAME",
     "Read masks and options from the file NAME.conf in ~/.config/haloconv or /etc/haloconv, or from a file whose path "
     "has a slash; the command line wins",
     option_text, LIVE_OPTION_TO(preset_name)},
    {0}};

static void options_set_defaults(const struct command_line *line, struct live_settings *s)
{
    *s = (struct live_settings){.line = line, .latency_ms = -1, .session = {.wet = 1, .gain = 1, .preload = -1}};
    hc_live_config_init(&s->session.live);
    s->session.live.limit_feedback = strcmp(line->command, "live") == 0;
}

/* Fills in the settings again: from the preset, then from the command line, which wins. */
static int read_preset(const struct command_line *line, int argc, char **argv, struct live_settings *s)
{
    char why[MESSAGE_CAP];
    struct preset *preset = preset_open(s->preset_name, why, sizeof why);
    int first_mask = s->first_mask, a = s->compared[0], b = s->compared[1];
    options_set_defaults(line, s);
    s->preset = preset;
    if (!preset) message_error("%s", why);
    if (!preset || !preset_apply(preset, line, s)) return EXIT_USAGE;
    int status = option_parse(line, argc, argv, s);
    if (s->masks.n > 0) /* the preset's numbers are those of its list */
        s->first_mask = first_mask, s->compared[0] = a, s->compared[1] = b;
    else
        s->masks = preset_masks(preset);
    return status;
}

static int refuse_masks(const struct command_line *line, const struct live_settings *s, bool may_lack_mask)
{
    if (!s->mask && !may_lack_mask) return message_usage(line->command, "needs a MASK");
    for (int i = 0; i < s->masks.n; i++)
        if (strcmp(s->masks.list[i], "-") == 0)
            return message_usage(line->command, "a mask cannot come from standard input; give a file");
    const int numbers[] = {s->first_mask, s->compared[0], s->compared[1]};
    for (int i = 0; i < 3; i++)
        if (s->masks.n > 0 && numbers[i] > s->masks.n)
            return message_usage(line->command, "--%s: the list has no mask %d", i ? "ab" : "first-mask", numbers[i]);
    return -1;
}

int live_options_parse(const struct command_line *line, int argc, char **argv, bool may_lack_mask,
                       struct live_settings *s)
{
    options_set_defaults(line, s);
    int status = option_parse(line, argc, argv, s);
    if (status < 0 && s->preset_name) status = read_preset(line, argc, argv, s);
    s->session.scene = &s->scene;
    s->midi.on = s->midi.on || s->midi.map || s->midi.channel || s->midi.connect;
    int first = s->first_mask > 0 && s->first_mask <= s->masks.n ? s->first_mask - 1 : 0;
    s->mask = s->masks.n > 0 ? s->masks.list[first] : NULL;
    if (status < 0) status = refuse_masks(line, s, may_lack_mask);
    if (status >= 0) live_options_free(s);
    return status;
}

void live_options_free(struct live_settings *s)
{
    preset_close(s->preset);
    s->preset = NULL;
}

/* ---- a preset while the session plays ---------------------------------------------------------- */

/* Is it an option that a command can change while the session plays? */
static bool is_state(const char *key)
{
    static const char *const names[] = {"gain", "wet", "dry", "bypass", "first-mask", "ab", "place", "distance-gain"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(key, names[i]) == 0) return true;
    return false;
}

/* Are the values of an option the same? Its reader says what is in the field. */
static bool options_are_same(const struct option_row *row, const struct live_settings *a, const struct live_settings *b)
{
    const void *x = (const char *)a + row->to, *y = (const char *)b + row->to;
    option_read *read = row->read;
    if (read == option_flag) return *(const bool *)x == *(const bool *)y;
    if (read == option_set || read == option_int || read == option_choice || read == read_wait)
        return *(const int *)x == *(const int *)y;
    if (read == option_number || read == option_grid || read == read_fade || read == read_standby)
        return *(const double *)x == *(const double *)y;
    const char *one = *(const char *const *)x, *other = *(const char *const *)y;
    return one == other || (one && other && strcmp(one, other) == 0);
}

/* Lists the options of the preset that the running session has otherwise. */
static void list_others(const struct live_settings *running, const struct live_settings *s, char *text, size_t cap)
{
    const char *key;
    *text = 0;
    for (int i = 0; (key = preset_key(s->preset, i)); i++) {
        const struct option_row *row = option_find(running->line, key);
        size_t n = strlen(text);
        if (row && !is_state(key) && !options_are_same(row, running, s))
            snprintf(text + n, cap - n, "%s%s", n ? ", " : "", row->name);
    }
}

bool live_options_read_preset(const struct live_settings *running, const char *name, struct live_settings *s,
                              char *others, size_t others_cap, char *why, size_t cap)
{
    if (!*name || strchr(name, '/')) return message_write(why, cap, "preset needs the name of a preset");
    struct preset *preset = preset_open(name, why, cap);
    if (!preset) return false;
    options_set_defaults(running->line, s);
    s->preset = preset;
    if (!preset_apply(preset, running->line, s)) {
        live_options_free(s);
        return message_write(why, cap, "preset %.100s has errors, or is for another command; see the log", name);
    }
    s->masks = preset_masks(preset);
    s->session.scene = &s->scene;
    list_others(running, s, others, others_cap);
    return true;
}

/* ---- the present state as a preset ------------------------------------------------------------- */

void live_options_note(void *settings, const struct option_row *row, const char *text)
{
    struct live_settings *s = settings;
    int i = 0;
    while (i < s->n_given && s->given[i].row != row) i++;
    if (i == sizeof s->given / sizeof *s->given) return;
    s->given[i].row = row;
    s->given[i].text = text;
    if (i == s->n_given) s->n_given++;
}

static void print_value(FILE *file, const char *key, const char *text)
{
    if (strchr(text, '\n')) fputc(0, file); /* a line cannot hold it: live_options_save_preset looks for this 0 */
    fprintf(file, text[strcspn(text, " \t\r\"")] ? "%s = \"%s\"\n" : "%s = %s\n", key, text);
}

/* Prints a path: a relative one would be relative to the preset's folder. */
static void print_path(FILE *file, const char *key, const char *path)
{
    char here[PATH_MAX] = "", whole[2 * PATH_MAX];
    bool is_whole = *path == '/' || strcmp(path, "-") == 0 || !getcwd(here, sizeof here);
    snprintf(whole, sizeof whole, "%s%s%s", here, is_whole ? "" : "/", path);
    print_value(file, key, whole);
}

static void print_gain(FILE *file, const char *key, float gain)
{
    fprintf(file, gain > 0 ? "%s = %.6g\n" : "%s = off\n", key, 20 * log10((double)gain));
}

static void print_state(FILE *file, const struct live_settings *s)
{
    const struct live_scene_settings *scene = &s->scene;
    for (int i = 0; i < s->masks.n; i++) print_path(file, "mask", s->masks.list[i]);
    if (s->first_mask > s->masks.n) print_path(file, "mask", s->mask);
    fprintf(file, "first-mask = %d\n", s->first_mask);
    if (s->compared[0]) fprintf(file, "ab = %d,%d\n", s->compared[0], s->compared[1]);
    print_gain(file, "gain", s->session.gain);
    print_gain(file, "wet", s->session.wet);
    print_gain(file, "dry", s->session.dry);
    fprintf(file, "bypass = %s\n", s->session.bypass ? "yes" : "no");
    for (int i = 0; i < scene->n_positions; i++) {
        const double *aed = scene->positions[i].aed;
        fprintf(file, "place = %d:%.9g,%.9g,%.9g\n", i + 1, aed[0], aed[1], fmin(aed[2], LIVE_SCENE_MAX_METRES));
    }
    if (scene->reference > 0) fprintf(file, "distance-gain = %.9g,%.9g\n", scene->reference, scene->min_m);
}

bool live_options_save_preset(const struct live_settings *s, const char *name, bool replace, char *saved, size_t cap)
{
    char *text = NULL;
    size_t n;
    FILE *file = open_memstream(&text, &n);
    if (!file) return message_write(saved, cap, "no memory for the preset; free some memory");
    fprintf(file, "command = %s\n", s->line->command);
    print_state(file, s);
    for (int i = 0; i < s->n_given; i++) {
        const struct option_row *row = s->given[i].row;
        if (is_state(row->name) || strcmp(row->name, "preset") == 0) continue;
        bool is_path = row->value && (strcmp(row->value, "FILE") == 0 || strcmp(row->value, "DIR") == 0);
        (is_path ? print_path : print_value)(file, row->name, row->value ? s->given[i].text : "yes");
    }
    bool good = fclose(file) == 0 && strlen(text) == n;
    if (!good) message_write(saved, cap, "the name of a file has a line end; rename the file");
    good = good && preset_save(name, replace, text, saved, cap);
    free(text);
    return good;
}
