/* haloconv check - everything that is wrong with a configuration, at once. */
#include "dsp/haloconv_masks.h"
#include "host/commands.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"
#include "mask_remarks.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

static const char help[] =
    "haloconv check CONF - everything that is wrong with a configuration, at once\n"
    "\n"
    "CONF is a configuration in the format of jconvolver or mcfx_convolver, named .conf (`man haloconv` has its\n"
    "grammar); any other mask will do. Its sound files are read too. Errors and warnings come on standard error, a\n"
    "line each, with file and line.\n"
    "\n"
    "      --rate HZ        as a session of that rate would read it                          [the rate of its files]\n"
    "      --json           all of it as one object on standard output\n"
    "  -h, --help           this text\n"
    "\n"
    "Exit status: 0 it can be played, 1 it cannot, 2 wrong usage.\n"
    "\n"
    "  haloconv check hall.conf\n";

struct settings {
    const char *path;
    int rate;
    bool json;
};

static int parse(int argc, char **argv, struct settings *s)
{
    static const struct option options[] = {{"rate", required_argument, NULL, 'r'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;
    *s = (struct settings){0};
    argv[0] = "haloconv";
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'r':
            if (!option_int("check", "--rate", optarg, 1, 100000000, &s->rate)) return EXIT_USAGE;
            break;
        case 'j':
            s->json = true;
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            message_note("see `haloconv check --help`");
            return EXIT_USAGE;
        }
    }
    if (argc - optind != 1) return message_usage("check", "needs one CONF, and got %d names", argc - optind);
    s->path = argv[optind];
    return -1;
}

static void print_ok(const hc_responses *mask)
{
    if (mask->in_port)
        printf("ok: %d input%s, %d output%s, %d response%s (%d distinct), longest %d frame%s", mask->n_in,
               message_s(mask->n_in), mask->n_out, message_s(mask->n_out), mask->n_routes, message_s(mask->n_routes),
               mask->n_distinct, mask->n_frames, message_s(mask->n_frames));
    else
        printf("ok: %d channel%s, %d frame%s", mask->n_channels, message_s(mask->n_channels), mask->n_frames,
               message_s(mask->n_frames));
    if (mask->rate) printf(" (%.3f s at %d Hz)", (double)mask->n_frames / mask->rate, mask->rate);
    putchar('\n');
}

static int print_json(const char *path, const hc_responses *mask, const char *why)
{
    json_t *all =
        json_pack("{s:o, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o}", "file", mask_text_json(path), "ok", !why,
                  "inputs", mask->n_in, "outputs", mask->n_out, "responses", mask->n_routes, "distinct",
                  mask->n_distinct, "frames", mask->n_frames, "errors", mask->n_errors, "warnings", mask->n_warnings,
                  "error", mask_text_json(why), "remarks", mask_remarks_json(mask));
    int status = json_print(all, 17, path);
    return why ? EXIT_FAILED : status;
}

int check_command(int argc, char **argv)
{
    struct settings settings;
    int status = parse(argc, argv, &settings);
    if (status >= 0) return status;
    hc_responses mask;
    char why[MESSAGE_CAP];
    bool good = hc_responses_load(settings.path, 0, settings.rate, 0, &mask, why, sizeof why) == HC_OK;
    status = good ? 0 : EXIT_FAILED;
    if (settings.json) {
        status = print_json(settings.path, &mask, good ? NULL : why);
    } else {
        bool told_by_why = !good && mask.n_errors + mask.n_warnings <= 1;
        if (!told_by_why) mask_remarks_print_all(&mask);
        if (good)
            print_ok(&mask);
        else if (!told_by_why)
            message_error("%s: %d error%s, %d warning%s; mend the lines above", settings.path, mask.n_errors,
                          message_s(mask.n_errors), mask.n_warnings, message_s(mask.n_warnings));
        else
            message_error("%s", why);
    }
    hc_responses_free(&mask);
    return status;
}
