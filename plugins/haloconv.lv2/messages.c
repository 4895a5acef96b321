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
        {&uris->min_block, LV2_BUF_SIZE__minBlockLength},
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
    return atom->type == uris->atom_URID && atom->size >= sizeof(LV2_URID) ? ((const LV2_Atom_URID *)atom)->body : 0;
}

/* The content of a patch:Set or patch:Get, without properties that end behind the atom; otype is 0 for another atom, or
 * for another plugin's message. */
struct message {
    LV2_URID otype, parameter;
    const LV2_Atom *value;
};

static struct message message_read(const struct uris *uris, const LV2_Atom *atom)
{
    if (atom->type != uris->atom_Object || atom->size < sizeof(LV2_Atom_Object_Body)) return (struct message){0};
    const LV2_Atom_Object *object = (const LV2_Atom_Object *)atom;
    const char *end = (const char *)(atom + 1) + atom->size;
    LV2_URID plugin = 0;
    struct message m = {.otype = object->body.otype};
    for (const LV2_Atom_Property_Body *p = lv2_atom_object_begin(&object->body);
         (const char *)(p + 1) <= end && p->value.size <= (size_t)(end - (const char *)(p + 1));
         p = lv2_atom_object_next(p)) {
        if (p->key == uris->patch_subject) plugin = urid_of(uris, &p->value);
        if (p->key == uris->patch_property) m.parameter = urid_of(uris, &p->value);
        if (p->key == uris->patch_value) m.value = &p->value;
    }
    if (plugin && plugin != uris->plugin) m.otype = 0;
    return m;
}

/* Returns the text of the value, without a final 0; NULL: the value is not a text. */
static const char *atom_text_of(const struct uris *uris, const LV2_Atom *value, size_t *length)
{
    if (!value || (value->type != uris->atom_Path && value->type != uris->atom_String)) return NULL;
    *length = strnlen((const char *)(value + 1), value->size);
    return (const char *)(value + 1);
}

LV2_URID patch_property(const struct uris *uris, const LV2_Atom *atom, const char **text, size_t *length)
{
    struct message m = message_read(uris, atom);
    *text = m.otype == uris->patch_Set ? atom_text_of(uris, m.value, length) : NULL;
    return *text ? m.parameter : 0;
}

enum patch patch_read(const struct uris *uris, const LV2_Atom *atom, int *side, const char **path, size_t *length)
{
    struct message m = message_read(uris, atom);
    *side = m.parameter == uris->masks[SIDE_B] ? SIDE_B : SIDE_A;
    bool is_mask = m.parameter == uris->masks[*side];
    if (m.otype == uris->patch_Get)
        return !m.parameter || is_mask || m.parameter == uris->status ? PATCH_GET : PATCH_NONE;
    *path = m.otype == uris->patch_Set && is_mask ? atom_text_of(uris, m.value, length) : NULL;
    return *path && *length > 0 ? PATCH_SET : PATCH_NONE;
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
