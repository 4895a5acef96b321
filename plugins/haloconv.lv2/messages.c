#include "messages.h"
#include "ports.h"

#include <lv2/atom/util.h>
#include <lv2/buf-size/buf-size.h>
#include <lv2/patch/patch.h>
#include <string.h>

void uris_map(struct uris *uris, LV2_URID_Map *map, const char *plugin_uri, const char *mask_uri)
{
    const struct {
        LV2_URID *id;
        const char *uri;
    } all[] = {
        {&uris->atom_Path, LV2_ATOM__Path},
        {&uris->atom_String, LV2_ATOM__String},
        {&uris->atom_Object, LV2_ATOM__Object},
        {&uris->atom_URID, LV2_ATOM__URID},
        {&uris->atom_Sequence, LV2_ATOM__Sequence},
        {&uris->atom_Int, LV2_ATOM__Int},
        {&uris->atom_Float, LV2_ATOM__Float},
        {&uris->patch_Set, LV2_PATCH__Set},
        {&uris->patch_Get, LV2_PATCH__Get},
        {&uris->patch_subject, LV2_PATCH__subject},
        {&uris->patch_property, LV2_PATCH__property},
        {&uris->patch_value, LV2_PATCH__value},
        {&uris->max_block, LV2_BUF_SIZE__maxBlockLength},
        {&uris->nominal_block, LV2_BUF_SIZE__nominalBlockLength},
        {&uris->plugin, plugin_uri},
        {&uris->mask, mask_uri},
        {&uris->status, STATUS_URI},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i].id = map->map(map->handle, all[i].uri);
}

static LV2_URID urid_of(const struct uris *uris, const LV2_Atom *atom)
{
    return atom && atom->type == uris->atom_URID && atom->size >= sizeof(LV2_URID) ? ((const LV2_Atom_URID *)atom)->body
                                                                                   : 0;
}

enum patch patch_read(const struct uris *uris, const LV2_Atom *atom, const char **path, size_t *length)
{
    if (atom->type != uris->atom_Object || atom->size < sizeof(LV2_Atom_Object_Body)) return PATCH_NONE;
    const LV2_Atom_Object *object = (const LV2_Atom_Object *)atom;
    const LV2_Atom *subject = NULL, *property = NULL, *value = NULL;
    lv2_atom_object_get(object, uris->patch_subject, &subject, uris->patch_property, &property, uris->patch_value,
                        &value, 0);
    LV2_URID plugin = urid_of(uris, subject), parameter = urid_of(uris, property);
    if (plugin && plugin != uris->plugin) return PATCH_NONE;
    bool is_ours = !parameter || parameter == uris->mask || parameter == uris->status;
    if (object->body.otype == uris->patch_Get) return is_ours ? PATCH_GET : PATCH_NONE;
    if (object->body.otype != uris->patch_Set || parameter != uris->mask || !value) return PATCH_NONE;
    if (value->type != uris->atom_Path && value->type != uris->atom_String) return PATCH_NONE;
    *path = (const char *)(value + 1);
    *length = strnlen(*path, value->size);
    return *length > 0 ? PATCH_SET : PATCH_NONE;
}

void patch_write(const struct uris *uris, LV2_Atom_Forge *forge, int64_t frame, LV2_URID property, const char *text)
{
    size_t length = strlen(text);
    LV2_Atom_Forge_Frame object;
    /* The forge would cut an event that does not fit. */
    if (forge->offset + length + 128 > forge->size) return;
    lv2_atom_forge_frame_time(forge, frame);
    lv2_atom_forge_object(forge, &object, 0, uris->patch_Set);
    lv2_atom_forge_key(forge, uris->patch_property);
    lv2_atom_forge_urid(forge, property);
    lv2_atom_forge_key(forge, uris->patch_value);
    lv2_atom_forge_typed_string(forge, property == uris->mask ? uris->atom_Path : uris->atom_String, text,
                                (uint32_t)length);
    lv2_atom_forge_pop(forge, &object);
}
