/* messages - the mask's path in LV2's words: patch:Set and patch:Get in, patch:Set out, and the URIs that take part. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include <lv2/atom/atom.h>
#include <lv2/atom/forge.h>
#include <lv2/urid/urid.h>
#include <stddef.h>
#include <stdint.h>

struct uris {
    LV2_URID atom_Path, atom_String, atom_Object, atom_URID, atom_Sequence, atom_Int, atom_Float;
    LV2_URID patch_Set, patch_Get, patch_subject, patch_property, patch_value;
    LV2_URID max_block, nominal_block; /* options: most frames of a run(), and the usual number */
    LV2_URID plugin, mask;
};

void uris_map(struct uris *uris, LV2_URID_Map *map, const char *plugin_uri);

enum message { MESSAGE_NONE, MESSAGE_SET, MESSAGE_GET };

/* What an event wants; for MESSAGE_SET path (not ended by a 0) and length are the new mask's. [rt] */
enum message message_read(const struct uris *uris, const LV2_Atom *atom, const char **path, size_t *length);

/* Append a patch:Set of the mask at a frame. [rt] */
void message_write(const struct uris *uris, LV2_Atom_Forge *forge, int64_t frame, const char *path);

#endif
