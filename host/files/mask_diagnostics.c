#include "mask_diagnostics.h"

#include "host/json_print.h"
#include "host/message.h"

#include <limits.h>
#include <stdbool.h>

enum { MAX_LINES = 10 }; /* for commands other than `check` */

/* Prints errors and warnings, and notes beside them. Returns the number of errors and warnings that were not
 * printed. */
static int print_first(const hc_responses *mask, int max, bool with_notes)
{
    int n = 0;
    for (int i = 0; i < mask->n_diagnostics && n < max; i++) {
        const hc_diagnostic *diagnostic = &mask->diagnostics[i];
        bool is_note = diagnostic->code == HC_NOTE;
        if (!is_note || with_notes) (diagnostic->code < 0 ? message_detail : message_note)("%s", diagnostic->text);
        n += !is_note;
    }
    return mask->n_errors + mask->n_warnings - n;
}

void mask_diagnostics_print(const hc_responses *mask, const char *path)
{
    int left = print_first(mask, MAX_LINES, false);
    if (left > 0) message_note("%s: has %d more errors or warnings; see `haloconv check %s`", path, left, path);
}

void mask_diagnostics_print_all(const hc_responses *mask)
{
    int left = print_first(mask, INT_MAX, true);
    if (left > 0) message_note("%d more errors or warnings are not shown", left);
}

int mask_diagnostics_fail(const hc_responses *mask, const char *path, const char *why)
{
    if (mask->n_errors + mask->n_warnings <= 1) return message_error("%s", why); /* `why` is the only text */
    mask_diagnostics_print_all(mask);
    return message_error("%s: has %d error%s and %d warning%s; correct the lines above", path, mask->n_errors,
                         message_s(mask->n_errors), mask->n_warnings, message_s(mask->n_warnings));
}

json_t *mask_diagnostics_json(const hc_responses *mask)
{
    json_t *all = json_array();
    for (int i = 0; i < mask->n_diagnostics; i++) {
        const hc_diagnostic *diagnostic = &mask->diagnostics[i];
        json_array_append_new(all, json_pack("{s:i, s:s, s:o}", "line", diagnostic->line, "kind",
                                             diagnostic->code == HC_NOTE ? "note"
                                             : diagnostic->code          ? "error"
                                                                         : "warning",
                                             "text", json_text(diagnostic->text)));
    }
    return all;
}
