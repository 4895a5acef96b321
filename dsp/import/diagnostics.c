#include "diagnostics.h"

#include "dsp/base/c_locale.h"
#include "dsp/base/error.h"

#include <stdarg.h>
#include <stdio.h>

void diagnostic(struct diagnostics *diagnostics, int code, int line, const char *command, const char *format, ...)
{
    char text[DIAGNOSTIC_CAP];
    if (code != HC_NOTE) code ? diagnostics->n_errors++ : diagnostics->n_warnings++;
    if (diagnostics->n_kept == DIAGNOSTICS_KEPT) return;
    if (!diagnostics->kept)
        diagnostics->kept = arena_alloc(diagnostics->arena, DIAGNOSTICS_KEPT, sizeof *diagnostics->kept);
    if (!diagnostics->kept) return; /* arena->is_short is set */

    int used = line ? snprintf(text, sizeof text, "%.400s:%d: ", diagnostics->path, line)
                    : snprintf(text, sizeof text, "%.400s: ", diagnostics->path);
    if (!code || code == HC_NOTE)
        used += snprintf(text + used, sizeof text - (size_t)used, code ? "note: " : "warning: ");
    if (command && *command) used += snprintf(text + used, sizeof text - (size_t)used, "%.40s: ", command);
    locale_t was = c_locale_enter();
    va_list values;
    va_start(values, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, values);
    va_end(values);
    c_locale_leave(was);
    text_clean(text);
    hc_diagnostic new = {.line = line, .code = code, .text = arena_text(diagnostics->arena, text)};
    if (!new.text) return;
    int at = diagnostics->n_kept++;
    for (; at > 0 && diagnostics->kept[at - 1].line > line; at--) diagnostics->kept[at] = diagnostics->kept[at - 1];
    diagnostics->kept[at] = new;
}
