/* haloconv check - prints every error and warning of a configuration. */
#include "bank_report.h"
#include "dsp/haloconv_masks.h"
#include "dsp/haloconv_scenes.h"
#include "host/commands.h"
#include "host/files/mask_diagnostics.h"
#include "host/json_print.h"
#include "host/message.h"
#include "host/option.h"
#include "configuration_report.h"

#include <stdbool.h>
#include <stdio.h>

struct check_settings {
    struct option_names names; /* CONF */
    int rate;
    bool json;
};

static const struct option_row check_options[] = {
    {"rate", 0, "HZ", "Read CONF as for a session of that rate [the rate of its files]", option_int,
     OPTION_TO(struct check_settings, rate), .min = 1, .max = 100000000},
    OPTION_JSON(OPTION_TO(struct check_settings, json)),
    {0}};

static const struct command_line check_line = {
    .command = "check",
    .usage = "CONF",
    .text =
        "Prints every error and warning of a configuration on standard error, each on a line with its file and "
        "line. CONF is a configuration in the format of jconvolver or mcfx_convolver, named .conf (haloconv-masks(5) "
        "has its grammar), a file of another program (haloconv-masks(5) lists them), any other mask, or a bank of "
        "responses. Its sound files and banks are read too.\v"
        "Exit status: 0 it can be played, 1 it cannot, 2 wrong usage.\n\n"
        "  haloconv check hall.conf",
    .groups = {{NULL, check_options}},
    OPTION_NAMES("one CONF", 1, 1, struct check_settings, names, 1)};

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
    if (mask->n_sources)
        printf(", %d source%s with %d bank%s", mask->n_sources, message_s(mask->n_sources), mask->n_banks,
               message_s(mask->n_banks));
    putchar('\n');
}

static int check_print_json(const char *path, const hc_responses *mask, const char *why)
{
    json_t *all = json_pack("{s:o, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o}", "file",
                            json_text(path), "ok", !why, "inputs", mask->n_in, "outputs", mask->n_out, "responses",
                            mask->n_routes, "distinct", mask->n_distinct, "frames", mask->n_frames, "sources",
                            mask->n_sources, "banks", mask->n_banks, "errors", mask->n_errors, "warnings",
                            mask->n_warnings, "error", json_text(why), "diagnostics", mask_diagnostics_json(mask));
    int status = json_print(all, 17, path);
    return why ? EXIT_FAILED : status;
}

static int check_bank(const struct check_settings *settings, const char *path)
{
    hc_bank_data bank = {.size = sizeof bank};
    char why[MESSAGE_CAP];
    bool good = hc_bank_load(path, settings->rate, NULL, &bank, why, sizeof why) == HC_OK;
    int status = good ? 0 : EXIT_FAILED;
    if (settings->json) {
        json_t *all =
            json_pack("{s:o, s:b, s:o, s:o}", "file", json_text(path), "ok", good, "bank",
                      good ? bank_report_json(path, &bank) : json_null(), "error", json_text(good ? NULL : why));
        int printed = json_print(all, 9, path);
        if (good) status = printed;
    } else if (!good) {
        status = message_error("%s", why);
    } else if (!message_is_quiet()) {
        printf("ok: ");
        bank_report_print(path, &bank);
    }
    hc_bank_data_free(&bank);
    return status;
}

int check_command(int argc, char **argv)
{
    struct check_settings settings = {0};
    int status = option_parse(&check_line, argc, argv, &settings);
    if (status >= 0) return status;
    const char *path = settings.names.list[0];
    if (hc_bank_is_file(path)) return check_bank(&settings, path);
    hc_responses mask;
    char why[MESSAGE_CAP];
    struct source_report sources = {0};
    bool is_read = hc_responses_load(path, 0, settings.rate, HC_WITH_SOURCES, &mask, why, sizeof why) == HC_OK;
    bool good = is_read && source_report_make(&sources, &mask, settings.rate, why, sizeof why);
    status = good ? 0 : EXIT_FAILED;
    if (settings.json) {
        status = check_print_json(path, &mask, good ? NULL : why);
    } else {
        if (is_read) mask_diagnostics_print_all(&mask);
        if (good && !message_is_quiet()) print_ok(&mask);
        if (is_read && !good) message_error("%s: %s", path, why);
        if (!is_read) mask_diagnostics_fail(&mask, path, why);
    }
    source_report_free(&sources);
    hc_responses_free(&mask);
    return status;
}
