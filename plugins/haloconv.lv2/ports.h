/* ports - what the LV2 plugins add to the tables of plugins/core/controls.h. describe.c writes the Turtle for hosts
 * from them, and plugin.c, the code that hosts load, uses them.
 *
 * Order of a plugin's ports: audio in, audio out, the controls that the plugin has, messages in, messages out.
 */
#ifndef PORTS_H
#define PORTS_H

#include "plugins/core/controls.h"

#define PLUGIN_URI "urn:haloconv:lv2:" /* followed by the variant's symbol */
#define MASK_URI PLUGIN_URI "mask"     /* the parameter with the mask's path */
#define BANK_URI PLUGIN_URI "bank"     /* for a plugin with sources: the bank's path         */
#define STATUS_URI PLUGIN_URI "status" /* the parameter with the result of the last load: "ok", or the error     */

#define UI_URI PLUGIN_URI "ui"         /* the window */
#define METERS_URI PLUGIN_URI "meters" /* extension data of a plugin: a struct plugin_meters, for the window */

struct core_meters;
struct plugin_meters {
    void (*get)(void *instance, struct core_meters *meters); /* [setup] core_get_meters                          */
};

enum { MESSAGE_BYTES = 8192 };

static inline const char *variant_file_uri(const struct variant *variant)
{
    return variant->n_sources > 0 ? BANK_URI : MASK_URI;
}

#endif
