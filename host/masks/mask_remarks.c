#include "mask_remarks.h"

#include "host/message.h"

#include <stdlib.h>
#include <string.h>

enum { SAID = 10 };

/* Of so many; the number of those that are left. */
static int print_first(const hc_responses *mask, int most)
{
    int n = mask->n_remarks < most ? mask->n_remarks : most;
    for (int i = 0; i < n; i++) message_note("%s", mask->remarks[i].text);
    return mask->n_errors + mask->n_warnings - n;
}

void mask_remarks_print(const hc_responses *mask, const char *path)
{
    int left = print_first(mask, SAID);
    if (left > 0) message_note("%s: and %d more; see `haloconv check %s`", path, left, path);
}

void mask_remarks_print_all(const hc_responses *mask)
{
    int left = print_first(mask, mask->n_remarks);
    if (left > 0) message_note("and %d more", left);
}

json_t *mask_text_json(const char *text)
{
    if (!text) return json_null();
    json_t *json = json_string(text);
    char *ascii = json ? NULL : strdup(text);
    if (!ascii) return json ? json : json_null();
    for (char *at = ascii; *at; at++)
        if (*at & 0x80) *at = '?';
    json = json_string(ascii);
    free(ascii);
    return json;
}

json_t *mask_remarks_json(const hc_responses *mask)
{
    json_t *all = json_array();
    for (int i = 0; i < mask->n_remarks; i++) {
        const hc_remark *remark = &mask->remarks[i];
        json_array_append_new(all, json_pack("{s:i, s:s, s:o}", "line", remark->line, "kind",
                                             remark->code ? "error" : "warning", "text", mask_text_json(remark->text)));
    }
    return all;
}
