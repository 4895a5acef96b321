/* ports - what the LV2 plugins add to the tables of plugins/core/controls.h. describe.c writes the Turtle for hosts
 * from them, and plugin.c, the code that hosts load, uses them.
 *
 * Order of a plugin's ports: audio in, audio out, the controls that the plugin has, messages in, messages out, and the
 * controls that came later, from TRIM on: the ports before them keep their numbers.
 */
#ifndef PORTS_H
#define PORTS_H

#include "plugins/core/core.h"

#include <stdio.h>
#include <string.h>

#define PLUGIN_URI "urn:haloconv:lv2:" /* followed by the variant's symbol */
#define MASK_URI PLUGIN_URI "mask"     /* the parameter with the path of mask A */
#define BANK_URI PLUGIN_URI "bank"     /* for a plugin with sources: the path of bank A      */
#define MASK_B_URI MASK_URI "_b"
#define BANK_B_URI BANK_URI "_b"
#define STATUS_URI PLUGIN_URI "status" /* the parameter with the result of the last load: "ok", or the error     */

#define UI_URI PLUGIN_URI "ui"         /* the window */
#define METERS_URI PLUGIN_URI "meters" /* extension data of a plugin: a struct plugin_meters, for the window */

struct plugin_meters {
    void (*get)(void *instance, struct core_meters *meters); /* [setup] core_get_meters                          */
};

enum { MESSAGE_BYTES = 16384 };

/* Writes the path of the bundle with one / at its end, which some hosts leave out. */
static inline void bundle_folder(const char *bundle, char folder[CORE_PATH_BYTES])
{
    size_t length = strlen(bundle);
    snprintf(folder, CORE_PATH_BYTES, "%s%s", bundle, length && bundle[length - 1] == '/' ? "" : "/");
}

static inline const char *variant_file_uri(const struct variant *variant, int side)
{
    if (variant->n_sources > 0) return side == SIDE_A ? BANK_URI : BANK_B_URI;
    return side == SIDE_A ? MASK_URI : MASK_B_URI;
}

/* The port of messages in, counted from the first control; that of messages out is the next one. */
static inline int variant_messages(const struct variant *variant)
{
    int n = 0;
    while (variant_control(variant, n) < TRIM) n++;
    return n;
}

/* Returns the control of a port, counted from the first control; N_CONTROLS: it has none. */
static inline int variant_port_control(const struct variant *variant, int port)
{
    int messages = variant_messages(variant);
    if (port == messages || port == messages + 1) return N_CONTROLS;
    return variant_control(variant, port < messages ? port : port - 2);
}

#endif
