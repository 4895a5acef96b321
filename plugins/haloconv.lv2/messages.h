/* messages - the masks' paths and the status as LV2 messages: patch:Set and patch:Get in, patch:Set out; and the URIs
 * for them. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "plugins/core/controls.h"

#include <lv2/atom/atom.h>
#include <lv2/atom/forge.h>
#include <lv2/urid/urid.h>
#include <stddef.h>
#include <stdint.h>

struct uris {
    LV2_URID atom_Path, atom_String, atom_Object, atom_URID, atom_Sequence, atom_Int, atom_Float;
    LV2_URID patch_Set, patch_Get, patch_subject, patch_property, patch_value;
    LV2_URID min_block, max_block, nominal_block; /* options: frames of a run(), and the usual number */
    LV2_URID event_transfer; /* the protocol of messages between a plugin and its window */
    LV2_URID plugin, masks[N_SIDES], status; /* masks: the parameters with the paths of the masks or banks A and B */
};

void uris_map(struct uris *uris, LV2_URID_Map *map, const char *plugin_uri, const struct variant *variant);

enum patch { PATCH_NONE, PATCH_SET, PATCH_GET };

/* Returns the request that an event makes. PATCH_SET: path (without a final 0) and length are those of the new mask of a
 * side. [rt] */
enum patch patch_read(const struct uris *uris, const LV2_Atom *atom, int *side, const char **path, size_t *length);

/* Returns the property that a patch:Set sets, with its text (without a final 0) and its length; 0: another event. [rt] */
LV2_URID patch_property(const struct uris *uris, const LV2_Atom *atom, const char **text, size_t *length);

/* Appends a patch:Set of a property, a mask's or the status; a patch:Get of all. [rt] */
void patch_set(const struct uris *uris, LV2_Atom_Forge *forge, LV2_URID property, const char *text);
void patch_get(const struct uris *uris, LV2_Atom_Forge *forge);

/* Appends a patch:Set to a sequence, at a frame. [rt] */
void patch_write(const struct uris *uris, LV2_Atom_Forge *forge, int64_t frame, LV2_URID property, const char *text);

#endif
