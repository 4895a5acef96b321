#include "live_options.h"

#include "host/message.h"
#include "host/option.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

const char live_options_help[] =
    "      --inputs N       input channels              [as suits the mask: 2 for 1 and 4 channels, else its own]\n"
    "      --gain DB        gain of the whole output                                                     [0]\n"
    "      --wet DB         gain of the convolved signal, or off                                         [0]\n"
    "      --dry DB         gain of the input in the output, or off                                    [off]\n"
    "      --fade MS        crossfade to a new mask                                                     [10]\n"
    "      --backend B      auto, cpu, cuda, cuda:N; hybrid, hybrid:N (tails only on the GPU)         [auto]\n"
    "      --method M       auto, direct (time domain) or fft (partitions)                            [auto]\n"
    "      --understudy P   percent of a core that the CPU may use to play along, ready to take over from a GPU\n"
    "                       that is lost; 0: an engine on the CPU is built when that happens            [60]\n"
    "      --wait-us N      longest wait for a GPU in a block                            [half the block's time]\n"
    "      --spin           the thread that drives a GPU looks for the next block all the time: back 5 us sooner,\n"
    "                       and a core is busy\n"
    "      --late WHAT      a block that a GPU did not do in time is silence or dry                [silence]\n"
    "      --no-resample    take the mask's samples as they are, whatever its rate\n"
    "      --watch          load the mask again whenever its file changes (SIGHUP loads it at once)\n"
    "      --osc [HOST:]PORT  be controlled by OSC messages: /bypass 0|1, /gain DB, /wet DB, /dry DB, /mask PATH,\n"
    "                       /next, /stats (answers with JSON); from this machine only unless HOST is given\n"
    "      --stats FILE     at the end write the statistics as JSON; - is standard output\n"
    "  -q, --quiet          errors only\n"
    "  -h, --help           this text\n"
    "\n"
    "Keys: b bypass, + - gain, w W wet, d D dry (down, up; 1 dB), n p next and previous mask, r load the mask\n"
    "again, q quit. All changes are faded, and masks load beside the audio; one that fails to load changes\n"
    "nothing. A GPU that is lost is replaced by the CPU, history kept, where the CPU can carry the mask.\n";

enum {
    OPT_INPUTS = 256,
    OPT_GAIN,
    OPT_WET,
    OPT_DRY,
    OPT_FADE,
    OPT_BACKEND,
    OPT_METHOD,
    OPT_WAIT_US,
    OPT_UNDERSTUDY,
    OPT_LATE,
    OPT_NO_RESAMPLE,
    OPT_WATCH,
    OPT_OSC,
    OPT_STATS,
    OPT_RECONNECT,
    OPT_SPIN,
    OPT_NAME,
    OPT_SERVER,
    OPT_CONNECT,
    OPT_INPUT,
    OPT_OUTPUT,
    OPT_RATE,
    OPT_BLOCK,
    OPT_LATENCY,
    OPT_NO_GUARD,
    OPT_ONE_CLOCK
};

static const struct {
    const char *only; /* the one command that takes it, or NULL */
    struct option option;
} table[] = {
    {NULL, {"inputs", required_argument, NULL, OPT_INPUTS}},
    {NULL, {"gain", required_argument, NULL, OPT_GAIN}},
    {NULL, {"wet", required_argument, NULL, OPT_WET}},
    {NULL, {"dry", required_argument, NULL, OPT_DRY}},
    {NULL, {"fade", required_argument, NULL, OPT_FADE}},
    {NULL, {"backend", required_argument, NULL, OPT_BACKEND}},
    {NULL, {"method", required_argument, NULL, OPT_METHOD}},
    {NULL, {"understudy", required_argument, NULL, OPT_UNDERSTUDY}},
    {NULL, {"wait-us", required_argument, NULL, OPT_WAIT_US}},
    {NULL, {"spin", no_argument, NULL, OPT_SPIN}},
    {NULL, {"late", required_argument, NULL, OPT_LATE}},
    {NULL, {"no-resample", no_argument, NULL, OPT_NO_RESAMPLE}},
    {NULL, {"watch", no_argument, NULL, OPT_WATCH}},
    {NULL, {"osc", required_argument, NULL, OPT_OSC}},
    {NULL, {"stats", required_argument, NULL, OPT_STATS}},
    {NULL, {"reconnect", no_argument, NULL, OPT_RECONNECT}},
    {NULL, {"quiet", no_argument, NULL, 'q'}},
    {NULL, {"help", no_argument, NULL, 'h'}},
    {"jack", {"name", required_argument, NULL, OPT_NAME}},
    {"jack", {"server", required_argument, NULL, OPT_SERVER}},
    {"jack", {"connect", no_argument, NULL, OPT_CONNECT}},
    {"live", {"input", required_argument, NULL, OPT_INPUT}},
    {"live", {"output", required_argument, NULL, OPT_OUTPUT}},
    {"live", {"rate", required_argument, NULL, OPT_RATE}},
    {"live", {"block", required_argument, NULL, OPT_BLOCK}},
    {"live", {"latency", required_argument, NULL, OPT_LATENCY}},
    {"live", {"no-guard", no_argument, NULL, OPT_NO_GUARD}},
    {"live", {"one-clock", no_argument, NULL, OPT_ONE_CLOCK}},
};
enum { N_OPTIONS = sizeof table / sizeof *table };

static bool take_db(const struct live_settings *s, const char *option, float *linear)
{
    double value;
    if (!option_db(s->command, option, optarg, &value)) return false;
    *linear = (float)value;
    return true;
}

static bool take_fade(struct live_settings *s)
{
    double ms;
    if (!option_number(s->command, "--fade", optarg, 0, 10000, &ms)) return false;
    s->session.live.fade_ms = ms > 0 ? ms : -1;
    return true;
}

static bool take_understudy(struct live_settings *s)
{
    double percent;
    if (!option_number(s->command, "--understudy", optarg, 0, 100, &percent)) return false;
    s->session.live.standby_share = percent > 0 ? percent / 100 : -1;
    return true;
}

static bool take_late(struct live_settings *s)
{
    s->session.live.late_dry = strcmp(optarg, "dry") == 0;
    if (s->session.live.late_dry || strcmp(optarg, "silence") == 0) return true;
    message_usage(s->command, "--late %s: needs silence or dry", optarg);
    return false;
}

static bool take_option(int option, struct live_settings *s)
{
    struct session_settings *session = &s->session;
    switch (option) {
    case OPT_INPUTS:
        return option_int(s->command, "--inputs", optarg, 1, 1024, &session->n_inputs);
    case OPT_GAIN:
        return take_db(s, "--gain", &session->gain);
    case OPT_WET:
        return take_db(s, "--wet", &session->wet);
    case OPT_DRY:
        return take_db(s, "--dry", &session->dry);
    case OPT_FADE:
        return take_fade(s);
    case OPT_BACKEND:
        return option_backend(s->command, session->live.backend = optarg, true);
    case OPT_METHOD:
        return option_method(s->command, session->live.method = optarg);
    case OPT_WAIT_US:
        if (!option_int(s->command, "--wait-us", optarg, 0, 10000000, &session->live.wait_us)) return false;
        if (session->live.wait_us == 0) session->live.wait_us = HC_WAIT_NONE;
        return true;
    case OPT_SPIN:
        session->live.spin = 1;
        return true;
    case OPT_UNDERSTUDY:
        return take_understudy(s);
    case OPT_LATE:
        return take_late(s);
    case OPT_NO_RESAMPLE:
        session->live.keep_rate = 1;
        return true;
    case OPT_WATCH:
        return s->watch = true;
    case OPT_OSC:
        return (s->osc = optarg);
    case OPT_STATS:
        return (s->stats = optarg);
    case OPT_RECONNECT:
        return s->reconnect = true;
    case OPT_NAME:
        return (s->name = optarg);
    case OPT_SERVER:
        return (s->server = optarg);
    case OPT_CONNECT:
        return s->connect = true;
    case OPT_INPUT:
        return (s->input = optarg);
    case OPT_OUTPUT:
        return (s->output = optarg);
    case OPT_RATE:
        return option_int(s->command, "--rate", optarg, 1000, 768000, &s->rate);
    case OPT_BLOCK:
        return option_int(s->command, "--block", optarg, 1, 8192, &s->block);
    case OPT_LATENCY:
        return option_number(s->command, "--latency", optarg, 0, 10000, &s->latency_ms);
    case OPT_NO_GUARD:
        session->live.limit_feedback = 0;
        return true;
    case OPT_ONE_CLOCK:
        return s->one_clock = true;
    case 'q':
        return s->quiet = true;
    default:
        return false;
    }
}

int live_options_parse(int argc, char **argv, const char *command, const char *help, bool may_lack_mask,
                       struct live_settings *s)
{
    struct option options[N_OPTIONS + 1] = {{0}};
    int n = 0, option;
    for (int i = 0; i < N_OPTIONS; i++)
        if (!table[i].only || strcmp(table[i].only, command) == 0) options[n++] = table[i].option;
    *s = (struct live_settings){.command = command, .latency_ms = -1};
    s->session = (struct session_settings){.wet = 1, .gain = 1};
    hc_live_config_init(&s->session.live);
    s->session.live.limit_feedback = strcmp(command, "live") == 0;
    argv[0] = "haloconv";
    while ((option = getopt_long(argc, argv, "qh", options, NULL)) != -1) {
        if (option == 'h') {
            printf("%s%s", help, live_options_help);
            return 0;
        }
        if (option == '?') {
            message_note("see `haloconv %s --help`", command);
            return EXIT_USAGE; /* getopt has said what is wrong */
        }
        if (!take_option(option, s)) return EXIT_USAGE;
    }
    s->masks = argv + optind;
    s->n_masks = argc - optind;
    s->mask = s->n_masks > 0 ? s->masks[0] : NULL;
    if (s->n_masks == 0 && !may_lack_mask) return message_usage(command, "needs a MASK");
    for (int i = 0; i < s->n_masks; i++)
        if (strcmp(s->masks[i], "-") == 0)
            return message_usage(command, "a mask cannot come from standard input; give a file");
    return -1;
}
