#include "remarks.h"

#include "dsp/engine/c_locale.h"

#include <stdio.h>

/* What is quoted of a stranger's file may go to a terminal: no escape sequences, be they of one byte or UTF-8's C1. */
static void make_harmless(char *text)
{
    for (unsigned char *at = (unsigned char *)text; *at; at++)
        if (*at < ' ' || *at == 127 || (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)) *at = '?';
}

void remark(struct remarks *remarks, int code, int line, const char *command, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    remark_list(remarks, code, line, command, format, values);
    va_end(values);
}

void remark_list(struct remarks *remarks, int code, int line, const char *command, const char *format, va_list values)
{
    char text[REMARK_CAP];
    code ? remarks->n_errors++ : remarks->n_warnings++;
    if (remarks->n_kept == REMARKS_KEPT) return;
    if (!remarks->kept) remarks->kept = pieces_alloc(remarks->pieces, REMARKS_KEPT, sizeof *remarks->kept);
    if (!remarks->kept) return; /* pieces->is_short says so */

    int used = line ? snprintf(text, sizeof text, "%.400s:%d: ", remarks->path, line)
                    : snprintf(text, sizeof text, "%.400s: ", remarks->path);
    if (!code) used += snprintf(text + used, sizeof text - (size_t)used, "warning: ");
    if (command) used += snprintf(text + used, sizeof text - (size_t)used, "%.40s: ", command);
    locale_t was = c_locale_enter();
    vsnprintf(text + used, sizeof text - (size_t)used, format, values);
    c_locale_leave(was);
    make_harmless(text);
    hc_remark new = {.line = line, .code = code, .text = pieces_text(remarks->pieces, text)};
    if (!new.text) return;
    int at = remarks->n_kept++;
    for (; at > 0 && remarks->kept[at - 1].line > line; at--) remarks->kept[at] = remarks->kept[at - 1];
    remarks->kept[at] = new;
}
