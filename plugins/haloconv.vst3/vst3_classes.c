#include "vst3_classes.h"

#include <string.h>

/* "haloconv", then the 64-bit FNV-1a hash of the layout's symbol, high byte first. */
void vst3_class_id(const struct variant *variant, uint8_t id[16])
{
    static const uint8_t maker[8] = {'h', 'a', 'l', 'o', 'c', 'o', 'n', 'v'};
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *at = variant->symbol; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x100000001b3;
    memcpy(id, maker, sizeof maker);
    for (int i = 0; i < 8; i++) id[8 + i] = (uint8_t)(hash >> (56 - 8 * i));
}

const char *vst3_sub_categories(const struct variant *v)
{
    if (v->n_sources > 0) return "Fx|Spatial";
    if (v->n_out > 2) return "Fx|Filter|Surround";
    return v->n_out == 2 ? "Fx|Reverb|Filter|Stereo" : "Fx|Reverb|Filter|Mono";
}
