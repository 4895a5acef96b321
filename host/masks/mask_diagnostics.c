#include "mask_diagnostics.h"

#include "host/json_print.h"
#include "host/message.h"

enum { MOST_LINES = 10 }; /* of a command other than `check` */

/* Returns the number of errors and warnings that were not printed. */
static int print_first(const hc_responses *mask, int most)
{
    int n = mask->n_diagnostics < most ? mask->n_diagnostics : most;
    for (int i = 0; i < n; i++)
        (mask->diagnostics[i].code ? message_detail : message_note)("%s", mask->diagnostics[i].text);
    return mask->n_errors + mask->n_warnings - n;
}

void mask_diagnostics_print(const hc_responses *mask, const char *path)
{
    int left = print_first(mask, MOST_LINES);
    if (left > 0) message_note("%s: and %d more; see `haloconv check %s`", path, left, path);
}

void mask_diagnostics_print_all(const hc_responses *mask)
{
    int left = print_first(mask, mask->n_diagnostics);
    if (left > 0) message_note("and %d more", left);
}

int mask_diagnostics_fail(const hc_responses *mask, const char *path, const char *why)
{
    if (mask->n_errors + mask->n_warnings <= 1) return message_error("%s", why); /* it has the only text */
    mask_diagnostics_print_all(mask);
    return message_error("%s: %d error%s, %d warning%s; mend the lines above", path, mask->n_errors,
                         message_s(mask->n_errors), mask->n_warnings, message_s(mask->n_warnings));
}

json_t *mask_diagnostics_json(const hc_responses *mask)
{
    json_t *all = json_array();
    for (int i = 0; i < mask->n_diagnostics; i++) {
        const hc_diagnostic *diagnostic = &mask->diagnostics[i];
        json_array_append_new(all,
                              json_pack("{s:i, s:s, s:o}", "line", diagnostic->line, "kind",
                                        diagnostic->code ? "error" : "warning", "text", json_text(diagnostic->text)));
    }
    return all;
}
