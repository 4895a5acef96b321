#include "keepsake.h"

#include <stdio.h>
#include <string.h>

void keepsake_take(struct session *session, struct keepsake *kept)
{
    hc_live *live = session_live(session);
    *kept = (struct keepsake){.wet = hc_live_get(live, HC_WET),
                              .dry = hc_live_get(live, HC_DRY),
                              .gain = hc_live_get(live, HC_GAIN),
                              .bypass = hc_live_get(live, HC_BYPASS) != 0};
    hc_live_mask(live, kept->mask, sizeof kept->mask);
}

void keepsake_settings(const struct keepsake *kept, struct session_settings *settings)
{
    settings->wet = kept->wet;
    settings->dry = kept->dry;
    settings->gain = kept->gain;
}

void keepsake_give(const struct keepsake *kept, struct session *session)
{
    hc_live_set(session_live(session), HC_BYPASS, kept->bypass);
}

bool keepsake_same(const struct keepsake *a, const struct keepsake *b)
{
    return strcmp(a->mask, b->mask) == 0 && a->wet == b->wet && a->dry == b->dry && a->gain == b->gain &&
           a->bypass == b->bypass;
}

json_t *keepsake_json(const struct keepsake *kept)
{
    return json_pack("{s:s*, s:f, s:f, s:f, s:b}", "mask", *kept->mask ? kept->mask : NULL, "wet", (double)kept->wet,
                     "dry", (double)kept->dry, "gain", (double)kept->gain, "bypass", kept->bypass);
}

static void read_gain(const json_t *json, const char *name, float *gain)
{
    const json_t *value = json_object_get(json, name);
    double number = json_number_value(value);
    if (json_is_number(value) && number >= 0 && number <= 1e6) *gain = (float)number;
}

void keepsake_read(const json_t *json, struct keepsake *kept)
{
    const char *mask = json_string_value(json_object_get(json, "mask"));
    const json_t *bypass = json_object_get(json, "bypass");
    if (mask) snprintf(kept->mask, sizeof kept->mask, "%s", mask);
    read_gain(json, "wet", &kept->wet);
    read_gain(json, "dry", &kept->dry);
    read_gain(json, "gain", &kept->gain);
    if (json_is_boolean(bypass)) kept->bypass = json_is_true(bypass);
}
