#include "messages.h"
#include "ports.h"

#include <lv2/atom/util.h>
#include <lv2/buf-size/buf-size.h>
#include <lv2/patch/patch.h>
#include <string.h>

void uris_map(struct uris *uris, LV2_URID_Map *map, const char *plugin_uri, const struct variant *variant)
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
        {&uris->event_transfer, LV2_ATOM__eventTransfer},
        {&uris->plugin, plugin_uri},
        {&uris->masks[SIDE_A], variant_file_uri(variant, SIDE_A)},
        {&uris->masks[SIDE_B], variant_file_uri(variant, SIDE_B)},
        {&uris->status, STATUS_URI},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i].id = map->map(map->handle, all[i].uri);
}

static LV2_URID urid_of(const struct uris *uris, const LV2_Atom *atom)
{
    return atom && atom->type == uris->atom_URID && atom->size >= sizeof(LV2_URID) ? ((const LV2_Atom_URID *)atom)->body
                                                                                   : 0;
}

/* The content of a patch:Set or patch:Get; otype is 0 for a damaged object or another plugin's. */
struct message {
    LV2_URID otype, parameter;
    const LV2_Atom *value;
};

static struct message message_read(const struct uris *uris, const LV2_Atom *atom)
{
    if (atom->type != uris->atom_Object || atom->size < sizeof(LV2_Atom_Object_Body)) return (struct message){0};
    const LV2_Atom_Object *object = (const LV2_Atom_Object *)atom;
    const LV2_Atom *subject = NULL, *property = NULL, *value = NULL;
    lv2_atom_object_get(object, uris->patch_subject, &subject, uris->patch_property, &property, uris->patch_value,
                        &value, 0);
    LV2_URID plugin = urid_of(uris, subject);
    if (plugin && plugin != uris->plugin) return (struct message){0};
    return (struct message){object->body.otype, urid_of(uris, property), value};
}

LV2_URID patch_property(const struct uris *uris, const LV2_Atom *atom, const char **text, size_t *length)
{
    struct message m = message_read(uris, atom);
    if (m.otype != uris->patch_Set || !m.value) return 0;
    if (m.value->type != uris->atom_Path && m.value->type != uris->atom_String) return 0;
    *text = (const char *)(m.value + 1);
    *length = strnlen(*text, m.value->size);
    return m.parameter;
}

enum patch patch_read(const struct uris *uris, const LV2_Atom *atom, int *side, const char **path, size_t *length)
{
    struct message m = message_read(uris, atom);
    bool is_get = m.otype == uris->patch_Get;
    LV2_URID parameter = is_get ? m.parameter : patch_property(uris, atom, path, length);
    *side = parameter == uris->masks[SIDE_B] ? SIDE_B : SIDE_A;
    bool is_mask = parameter == uris->masks[*side];
    if (is_get) return !parameter || is_mask || parameter == uris->status ? PATCH_GET : PATCH_NONE;
    return is_mask && *length > 0 ? PATCH_SET : PATCH_NONE;
}

void patch_set(const struct uris *uris, LV2_Atom_Forge *forge, LV2_URID property, const char *text)
{
    LV2_Atom_Forge_Frame object;
    lv2_atom_forge_object(forge, &object, 0, uris->patch_Set);
    lv2_atom_forge_key(forge, uris->patch_property);
    lv2_atom_forge_urid(forge, property);
    lv2_atom_forge_key(forge, uris->patch_value);
    lv2_atom_forge_typed_string(forge, property == uris->status ? uris->atom_String : uris->atom_Path, text,
                                (uint32_t)strlen(text));
    lv2_atom_forge_pop(forge, &object);
}

void patch_get(const struct uris *uris, LV2_Atom_Forge *forge)
{
    LV2_Atom_Forge_Frame object;
    lv2_atom_forge_object(forge, &object, 0, uris->patch_Get);
    lv2_atom_forge_pop(forge, &object);
}

void patch_write(const struct uris *uris, LV2_Atom_Forge *forge, int64_t frame, LV2_URID property, const char *text)
{
    /* The forge would cut an event that does not fit. */
    if (forge->offset + strlen(text) + 128 > forge->size) return;
    lv2_atom_forge_frame_time(forge, frame);
    patch_set(uris, forge, property, text);
}
