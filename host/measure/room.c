/* haloconv room - measures loudspeakers in a room, makes the filter that corrects them, lets the user compare, measures
 * again through the filter, and leaves a preset. Each step is a command of the program, and is printed as such.
 */
#include "host/commands.h"
#include "host/design/calibration.h"
#include "host/design/correction_report.h"
#include "host/files/text_out.h"
#include "host/masks/mask_write.h"
#include "host/message.h"
#include "host/option.h"
#include "room_compare.h"
#include "room_files.h"
#include "room_questions.h"
#include "sweep.h"
#include "take.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_CAP = 512 };

struct room {
    bool yes, is_jack, is_portaudio, listen;
    int n_outputs, n_positions, averages; /* 0: to be asked */
    int rate;                             /* rate of the sound card, Hz */
    double length_s, silence_s, level_db;
    const char *play_to, *record_from, *server, *target, *folder, *preset; /* NULL: to be asked, or the default */
    const char *calibration, *levels, *delays;
    struct room_questions questions;
    char to[TEXT_CAP], from[TEXT_CAP], curve[TEXT_CAP], name[TEXT_CAP]; /* answers */
    char port[SWEEP_MAX_OUTPUTS][TEXT_CAP];                             /* the port or device of each output */
    char path[PATH_MAX];                                                /* absolute path of the folder */
};

/* ---- options ------------------------------------------------------------------------------------ */

#define TO(field) OPTION_TO(struct room, field)

static const struct option_row room_options[] = {
    {"output", 'o', "FOLDER",
     "Folder for the measurements, the filter, its configuration and the plot; it must have no files of another run "
     "[room, or the first free one of room-2, room-3 ...]",
     option_text, TO(folder)},
    {"yes", 0, NULL, "Ask nothing: use the options, or their defaults; do not listen without --listen", option_flag,
     TO(yes)},
    {"jack", 0, NULL, "Play through JACK", option_flag, TO(is_jack)},
    {"portaudio", 0, NULL, "Play through a sound card, by PortAudio", option_flag, TO(is_portaudio)},
    {"outputs", 0, "N", "Loudspeakers [2]", option_int, TO(n_outputs), .min = 1, .max = SWEEP_MAX_OUTPUTS},
    {"play-to", 0, "NAME", "Device or ports of the loudspeakers, as for haloconv measure [the sound card]", option_text,
     TO(play_to)},
    {"record-from", 0, "NAME",
     "Device or port of the microphone, as for haloconv measure [the sound card's first input]", option_text,
     TO(record_from)},
    {"server", 0, "SERVER", "Name of the JACK server [the default one]", option_text, TO(server)},
    {"positions", 0, "N", "Positions of the microphone, which are averaged [1]", option_int, TO(n_positions), .min = 1,
     .max = ROOM_MAX_POSITIONS},
    {"target", 0, "CURVE", "Text with a frequency in Hz and a gain in dB on each line [flat]", option_text, TO(target)},
    CALIBRATION_OPTION(TO(calibration)),
    CORRECTION_LEVELS_OPTION(option_word, TO(levels), "keep"),
    CORRECTION_DELAYS_OPTION(option_word, TO(delays)),
    {"preset", 0, "NAME",
     "Preset that plays the filter: `haloconv run NAME` [room, or the first free one of room-2, room-3 ...]",
     option_text, TO(preset)},
    {"listen", 0, NULL, "Play through the filter with --yes, too, until q or SIGTERM", option_flag, TO(listen)},
    {0}};

static const struct option_row room_sweep_options[] = {
    {"length", 0, "SECONDS", "Length of a sweep [6]", option_number, TO(length_s), .min = 0.01, .max = 300},
    {"silence", 0, "SECONDS", "Silence behind a sweep, and length of the responses [2]", option_number, TO(silence_s),
     .min = 0.01, .max = 60},
    {"averages", 0, "N", "Sweeps of each loudspeaker [2]", option_int, TO(averages), .min = 1, .max = 100},
    {"level", 0, "DB", "Peak of the sweep, re full scale [-20]", option_number, TO(level_db), .min = -100, .max = 0},
    {0}};

static const struct command_line room_line = {
    .command = "room",
    .usage = "",
    .text =
        "Walks through the correction of loudspeakers in a room: measures them, makes the filter, plays it beside "
        "the uncorrected sound, measures again through the filter, and leaves a preset. Every question has a default "
        "and an option.\v"
        "  haloconv room --jack --outputs 2\n"
        "  haloconv room --yes --jack --target house.txt --preset living-room",
    .groups = {{NULL, room_options}, {"Sweep:", room_sweep_options}}};

static int room_parse(int argc, char **argv, struct room *r)
{
    *r = (struct room){
        .length_s = 6, .silence_s = 2, .averages = 2, .level_db = -20, .levels = "keep", .delays = "keep"};
    int status = option_parse(&room_line, argc, argv, r);
    if (status >= 0) return status;
    if (r->is_jack && r->is_portaudio)
        return message_usage("room", "--jack and --portaudio exclude each other; give one of them");
    r->questions.yes = r->yes;
    char why[MESSAGE_CAP];
    return !r->folder || room_folder_check(r->folder, why, sizeof why) ? -1 : message_error("%s", why);
}

/* ---- steps: commands of the program, which are printed and run ----------------------------------- */

enum { ROOM_MAX_WORDS = 64 };

struct room_step { /* starts as {0} */
    char *word[ROOM_MAX_WORDS + 1];
    int n;
    bool is_short; /* no memory, or too many words */
};

__attribute__((format(printf, 2, 3))) static void room_step_add(struct room_step *s, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (s->n < ROOM_MAX_WORDS && vasprintf(&s->word[s->n], format, values) >= 0)
        s->n++;
    else
        s->is_short = true;
    va_end(values);
}

/* Adds an option and its value. value NULL or "": adds nothing. */
static void room_step_option(struct room_step *s, const char *option, const char *value)
{
    if (!value || !*value) return;
    room_step_add(s, "%s", option);
    room_step_add(s, "%s", value);
}

/* Runs the command, and frees its words. prefix: the first word of a command of two, else "". Returns its status. */
static int room_step_run(struct room_step *s, const char *prefix, int (*command)(int argc, char **argv))
{
    char line[MESSAGE_CAP];
    size_t at = (size_t)snprintf(line, sizeof line, "haloconv%s%s", *prefix ? " " : "", prefix);
    for (int i = 0; i < s->n && at < sizeof line; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, strchr(s->word[i], ' ') ? " '%s'" : " %s", s->word[i]);
    message_note("> %s", line);
    s->word[s->n] = NULL;
    struct room_step owned = *s; /* the command may change the order */
    int status = s->is_short ? message_error("room: no memory; free some memory") : command(s->n, s->word);
    for (int i = 0; i < owned.n; i++) free(owned.word[i]);
    return status;
}

static const char *room_text_of(const char *text)
{
    return *text ? text : NULL;
}

/* ---- finding the devices ------------------------------------------------------------------------ */

static struct take_settings take_settings_of(const struct room *r)
{
    return (struct take_settings){.api = r->is_jack ? "jack" : "portaudio",
                                  .output_device = room_text_of(r->to),
                                  .input_device = room_text_of(r->from),
                                  .server = r->server,
                                  .n_outputs = r->n_outputs,
                                  .n_inputs = 1};
}

/* JACK is the default if its server answers. */
static bool choose_api(struct room *r)
{
    char text[TEXT_CAP];
    if (r->is_jack || r->is_portaudio) return true;
    const char *preset = take_has_jack(r->server) ? "jack" : "portaudio";
    while (room_ask(&r->questions, "Play through jack or portaudio?", preset, text, sizeof text)) {
        r->is_jack = strcmp(text, "jack") == 0;
        r->is_portaudio = strcmp(text, "portaudio") == 0;
        if (r->is_jack || r->is_portaudio) return true;
    }
    return false;
}

/* Opens the sound card once, to print its ports or device, and to fail early. */
static bool find_card(struct room *r)
{
    char why[MESSAGE_CAP];
    struct take_settings settings = take_settings_of(r);
    struct take *take = take_open(&settings, why, sizeof why);
    if (!take) {
        message_error("%s", why);
        return false;
    }
    for (int o = 0; o < r->n_outputs; o++) {
        take_output_name(take, o, r->port[o], sizeof r->port[o]);
        message_note("loudspeaker %d: %s", o + 1, r->port[o]);
    }
    r->rate = take_rate(take);
    message_note("%d Hz", r->rate);
    take_close(take);
    return true;
}

static bool choose_preset(struct room *r)
{
    char path[PATH_MAX], why[MESSAGE_CAP], preset[TEXT_CAP];
    room_preset_number(preset, sizeof preset);
    if (r->preset) snprintf(r->name, sizeof r->name, "%s", r->preset);
    if (!r->preset && !room_ask(&r->questions, "Name of the preset?", preset, r->name, sizeof r->name)) return false;
    bool good = room_preset_check(r->name, path, sizeof path, why, sizeof why);
    if (!good) message_error("%s", why);
    return good;
}

static bool ask_settings(struct room *r)
{
    struct room_questions *q = &r->questions;
    snprintf(r->to, sizeof r->to, "%s", r->play_to ? r->play_to : "");
    snprintf(r->from, sizeof r->from, "%s", r->record_from ? r->record_from : "");
    snprintf(r->curve, sizeof r->curve, "%s", r->target ? r->target : "");
    return choose_api(r) &&
           (r->n_outputs || room_ask_number(q, "How many loudspeakers?", 2, SWEEP_MAX_OUTPUTS, &r->n_outputs)) &&
           (r->play_to || room_ask(q, "Where are the loudspeakers? (ENTER: sound card)", "", r->to, sizeof r->to)) &&
           (r->record_from ||
            room_ask(q, "Where is the microphone? (ENTER: the first input)", "", r->from, sizeof r->from)) &&
           find_card(r) &&
           (r->n_positions ||
            room_ask_number(q, "At how many positions do you measure?", 1, ROOM_MAX_POSITIONS, &r->n_positions)) &&
           (r->target || room_ask(q, "File of the target curve? (ENTER: flat)", "", r->curve, sizeof r->curve)) &&
           choose_preset(r);
}

/* ---- measuring ---------------------------------------------------------------------------------- */

static int measure_once(const struct room *r, const char *filter, const char *file)
{
    struct room_step step = {0};
    room_step_add(&step, "measure");
    room_step_add(&step, r->is_jack ? "--jack" : "--portaudio");
    room_step_option(&step, "--play-to", r->to);
    room_step_option(&step, "--record-from", r->from);
    room_step_option(&step, "--server", r->server);
    room_step_add(&step, "--outputs=%d", r->n_outputs);
    room_step_add(&step, "--length=%g", r->length_s);
    room_step_add(&step, "--silence=%g", r->silence_s);
    room_step_add(&step, "--averages=%d", r->averages);
    room_step_add(&step, "--level=%g", r->level_db);
    room_step_option(&step, "--calibration", r->calibration);
    room_step_option(&step, "--filter", filter);
    room_step_add(&step, "-o");
    room_step_add(&step, "%s/%s", r->path, file);
    return room_step_run(&step, "", measure_command);
}

/* After a failure the user removes its cause and tries again. */
static int measure_again(struct room *r, const char *filter, const char *file)
{
    int status;
    bool again = !r->yes;
    while ((status = measure_once(r, filter, file)) != 0 && again)
        if (!room_ask_yes(&r->questions, "Measure again?", true, &again)) break;
    return status;
}

static int measure_positions(struct room *r)
{
    int status = 0;
    char file[64], question[160], answer[TEXT_CAP];
    for (int i = 1; i <= r->n_positions && status == 0; i++) {
        snprintf(question, sizeof question,
                 "Position %d of %d: put the microphone there, leave the room quiet, press ENTER", i, r->n_positions);
        if (!room_ask(&r->questions, question, "", answer, sizeof answer)) return EXIT_FAILED;
        snprintf(file, sizeof file, "measured-%d.wav", i);
        status = measure_again(r, NULL, file);
    }
    return status;
}

/* ---- the filter --------------------------------------------------------------------------------- */

static int make_filter(const struct room *r)
{
    struct room_step step = {0};
    room_step_add(&step, "correct");
    for (int i = 1; i <= r->n_positions; i++) room_step_add(&step, "%s/measured-%d.wav", r->path, i);
    room_step_option(&step, "--target", r->curve);
    room_step_option(&step, "--levels", r->levels);
    room_step_option(&step, "--delays", r->delays);
    room_step_add(&step, "--normalise");
    room_step_add(&step, "-o");
    room_step_add(&step, "%s/filter.wav", r->path);
    return room_step_run(&step, "design", design_correct_command);
}

/* Writes a configuration for JACK, which connects the outputs. */
static bool write_configuration(const struct room *r, char *why, size_t cap)
{
    char path[PATH_MAX + 32];
    const char *ports[SWEEP_MAX_OUTPUTS];
    for (int o = 0; o < r->n_outputs; o++) ports[o] = r->port[o];
    snprintf(path, sizeof path, "%s/room.conf", r->path);
    return !r->is_jack || room_configuration_write(path, "filter.wav", r->n_outputs, ports, why, cap);
}

/* ---- listening ---------------------------------------------------------------------------------- */

static bool write_flat(const struct room *r, char *why, size_t cap)
{
    double one[SWEEP_MAX_OUTPUTS];
    char path[PATH_MAX + 32];
    for (int o = 0; o < r->n_outputs; o++) one[o] = 1;
    snprintf(path, sizeof path, "%s/flat.wav", r->path);
    struct mask_out out = {.path = path, .rate = r->rate, .n_channels = r->n_outputs, .n_frames = 1, .h = one};
    return mask_write(&out, why, cap);
}

static int listen_to(struct room *r)
{
    bool wanted = r->listen;
    char why[MESSAGE_CAP];
    /* PortAudio would play the microphone, unless the default input is another device. */
    if (!r->yes && !wanted && !room_ask_yes(&r->questions, "Listen to it?", r->is_jack, &wanted)) return EXIT_FAILED;
    if (!wanted) return 0;
    if (!write_flat(r, why, sizeof why)) return message_error("%s", why);
    message_note(
        "Play something to the inputs. Key a compares the filter with the uncorrected sound at equal loudness, then "
        "switches between the two; q continues.");
    struct room_step step = {0};
    sigset_t signals;
    room_step_add(&step, r->is_jack ? "jack" : "live");
    room_step_add(&step, "%s/%s", r->path, r->is_jack ? "room.conf" : "filter.wav");
    room_step_add(&step, "%s/flat.wav", r->path);
    room_step_option(&step, "--server", r->is_jack ? r->server : NULL);
    room_step_option(&step, "--output", r->is_jack ? NULL : r->to);
    pthread_sigmask(SIG_SETMASK, NULL, &signals); /* a session keeps signals blocked until the program ends */
    int status = room_step_run(&step, "", r->is_jack ? jack_command : live_command);
    pthread_sigmask(SIG_SETMASK, &signals, NULL);
    return status;
}

/* ---- verifying ---------------------------------------------------------------------------------- */

static int verify(struct room *r)
{
    char filter[PATH_MAX + 32], before[PATH_MAX + 32], after[PATH_MAX + 32], picture[PATH_MAX + 32];
    char why[MESSAGE_CAP], answer[TEXT_CAP];
    snprintf(filter, sizeof filter, "%s/filter.wav", r->path);
    snprintf(before, sizeof before, "%s/measured-%d.wav", r->path, r->n_positions); /* same form as verified.wav */
    snprintf(after, sizeof after, "%s/verified.wav", r->path);
    if (!room_ask(&r->questions, "Now through the filter: leave the microphone there, press ENTER", "", answer,
                  sizeof answer))
        return EXIT_FAILED;
    int status = measure_again(r, filter, "verified.wav");
    if (status != 0) return status;
    snprintf(picture, sizeof picture, "%s/room.svg", r->path);
    if (!room_compare(before, after, r->curve, picture, why, sizeof why)) return message_error("%s", why);
    message_note("%s: shows each loudspeaker before and after, and the target", picture);
    return 0;
}

/* ---- the preset --------------------------------------------------------------------------------- */

static int leave_preset(const struct room *r)
{
    char mask[PATH_MAX + 32], path[PATH_MAX], why[MESSAGE_CAP];
    snprintf(mask, sizeof mask, "%s/%s", r->path, r->is_jack ? "room.conf" : "filter.wav");
    struct room_preset preset = {r->name, r->is_jack, mask, r->server, r->port[0]};
    if (!room_preset_write(&preset, path, sizeof path, why, sizeof why)) return message_error("%s", why);
    message_note("%s: `haloconv run %s` plays the filter, and `systemctl --user enable --now haloconv@%s` whenever you "
                 "log in",
                 path, r->name, r->name);
    return 0;
}

static bool open_folder(struct room *r)
{
    char why[MESSAGE_CAP], path[PATH_MAX];
    bool good = r->folder ? text_out_folder(r->folder, why, sizeof why)
                          : room_folder_number(path, sizeof path, why, sizeof why);
    if (good && !realpath(r->folder ? r->folder : path, r->path))
        good = message_write(why, sizeof why, "room: the folder has no absolute path; give another -o");
    if (!good) message_error("%s", why);
    if (good) message_note("%s: has the files of this run", r->path);
    return good;
}

int room_command(int argc, char **argv)
{
    struct room r;
    char why[MESSAGE_CAP] = "";
    int status = room_parse(argc, argv, &r);
    if (status >= 0) return status;
    if (!ask_settings(&r) || !open_folder(&r)) return EXIT_FAILED;
    status = measure_positions(&r);
    if (status == 0) status = make_filter(&r);
    if (status == 0 && !write_configuration(&r, why, sizeof why)) status = message_error("%s", why);
    if (status == 0) status = listen_to(&r);
    if (status == 0) status = verify(&r);
    return status == 0 ? leave_preset(&r) : status;
}
