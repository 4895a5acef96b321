/* ui - the plugins' window in an LV2 host, on X11. Ports and messages are its only way to the plugin, so that both may
 * be in two processes; the peaks of the meters and the engine's name are there if the host gives it the instance, too.
 */
#include "messages.h"
#include "plugins/core/plugin_window.h"
#include "ports.h"

#include <lv2/atom/forge.h>
#include <lv2/core/lv2.h>
#include <lv2/core/lv2_util.h>
#include <lv2/data-access/data-access.h>
#include <lv2/instance-access/instance-access.h>
#include <lv2/options/options.h>
#include <lv2/ui/ui.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ui { /* one thread of the host */
    const struct variant *variant;
    struct plugin_window content;
    struct window *window;
    LV2UI_Write_Function write;
    LV2UI_Controller host;
    const LV2UI_Touch *touch; /* NULL: the host knows no gestures */
    struct uris uris;
    LV2_Atom_Forge forge;
    const struct plugin_meters *meters; /* NULL: the host gives no instance */
    LV2_Handle instance;
    float values[N_CONTROLS];
    char masks[N_SIDES][CORE_PATH_BYTES], status[CORE_STATUS_BYTES];
    bool is_loading;
};

/* ---- ports -------------------------------------------------------------------------------------- */

static uint32_t first_control(const struct ui *ui)
{
    return (uint32_t)(ui->variant->n_in + ui->variant->n_out);
}

static uint32_t ui_port_of(const struct ui *ui, int control)
{
    int i = 0;
    while (variant_port_control(ui->variant, i) != control) i++;
    return first_control(ui) + (uint32_t)i;
}

static uint32_t messages_in(const struct ui *ui)
{
    return first_control(ui) + (uint32_t)variant_messages(ui->variant);
}

/* The text of a property; one that is too long for its buffer is cut. */
static void copy(char *to, size_t cap, const char *text, size_t length)
{
    snprintf(to, cap, "%.*s", (int)(length < cap ? length : cap - 1), text);
}

static void port_event(LV2UI_Handle handle, uint32_t port, uint32_t size, uint32_t format, const void *data)
{
    struct ui *ui = handle;
    const char *text = "";
    size_t length = 0;
    uint32_t i = port - first_control(ui);
    if (format == 0 && size == sizeof(float) && i < N_CONTROLS + 2 &&
        variant_port_control(ui->variant, (int)i) < N_CONTROLS)
        ui->values[variant_port_control(ui->variant, (int)i)] = *(const float *)data;
    if (format != ui->uris.event_transfer || port != messages_in(ui) + 1 || size < sizeof(LV2_Atom) ||
        ((const LV2_Atom *)data)->size > size - sizeof(LV2_Atom))
        return;
    LV2_URID property = patch_property(&ui->uris, data, &text, &length);
    for (int side = 0; side < N_SIDES; side++)
        if (property == ui->uris.masks[side]) copy(ui->masks[side], sizeof ui->masks[side], text, length);
    if (property != ui->uris.status) return;
    copy(ui->status, sizeof ui->status, text, length);
    ui->is_loading = false;
}

static void ui_send_message(struct ui *ui, const char *path) /* NULL: asks for masks and status */
{
    uint64_t buffer[MESSAGE_BYTES / sizeof(uint64_t)];
    const LV2_Atom *message = (const LV2_Atom *)(const void *)buffer;
    lv2_atom_forge_set_buffer(&ui->forge, (uint8_t *)buffer, sizeof buffer);
    if (path)
        patch_set(&ui->uris, &ui->forge, ui->uris.masks[control_side(ui->values[A_B])], path);
    else
        patch_get(&ui->uris, &ui->forge);
    ui->write(ui->host, messages_in(ui), lv2_atom_total_size(message), ui->uris.event_transfer, message);
}

/* ---- what the window shows and sets ------------------------------------------------------------- */

static double ui_get(void *data, int control)
{
    return (double)((const struct ui *)data)->values[control];
}

static void touch(const struct ui *ui, int control, bool is_held)
{
    if (ui->touch) ui->touch->touch(ui->touch->handle, ui_port_of(ui, control), is_held);
}

static void ui_begin(void *data, int control)
{
    touch(data, control, true);
}

static void ui_set(void *data, int control, double value)
{
    struct ui *ui = data;
    ui->values[control] = control_limit(control, value);
    ui->write(ui->host, ui_port_of(ui, control), sizeof(float), 0, &ui->values[control]);
}

static void ui_end(void *data, int control)
{
    touch(data, control, false);
}

static void ui_load(void *data, const char *path)
{
    struct ui *ui = data;
    ui->is_loading = true; /* the plugin answers with mask and status */
    ui_send_message(ui, path);
}

static void ui_state(void *data, struct window_state *to)
{
    const struct ui *ui = data;
    struct core_meters meters = {.engine = ""};
    if (ui->meters) ui->meters->get(ui->instance, &meters);
    for (int side = 0; side < N_SIDES; side++) snprintf(to->mask[side], sizeof to->mask[side], "%s", ui->masks[side]);
    plugin_window_fill(to, ui->values, &meters, ui->status, ui->is_loading);
}

/* ---- life --------------------------------------------------------------------------------------- */

static void ui_cleanup(LV2UI_Handle handle)
{
    struct ui *ui = handle;
    window_close(ui->window);
    free(ui);
}

static int idle(LV2UI_Handle handle)
{
    return window_idle(((struct ui *)handle)->window) != WINDOW_OPEN;
}

static int resize(LV2UI_Feature_Handle handle, int width, int height)
{
    window_resize(((struct ui *)handle)->window, width, height);
    return 0;
}

static double scale_of(const struct ui *ui, LV2_URID_Map *map, const LV2_Options_Option *option)
{
    LV2_URID factor = map->map(map->handle, LV2_UI__scaleFactor);
    for (; option && option->key; option++)
        if (option->key == factor && option->type == ui->uris.atom_Float && option->value)
            return (double)*(const float *)option->value;
    return 0;
}

static const struct variant *variant_of(const char *plugin_uri)
{
    size_t length = strlen(PLUGIN_URI);
    for (const struct variant *v = variants; v < variants + N_VARIANTS; v++)
        if (strncmp(plugin_uri, PLUGIN_URI, length) == 0 && strcmp(plugin_uri + length, v->symbol) == 0) return v;
    return NULL;
}

static bool ui_open_window(struct ui *ui, const LV2_Feature *const *features, double scale, char *why, size_t cap)
{
    const LV2UI_Resize *host = lv2_features_data(features, LV2_UI__resize);
    int width, height;
    window_default_size(&ui->content.model, scale, &width, &height);
    if (host) host->ui_resize(host->handle, width, height);
    const struct window_config config = {(uintptr_t)lv2_features_data(features, LV2_UI__parent), scale, width, height};
    return (ui->window = window_open(&ui->content.model, &config, why, cap));
}

static LV2UI_Handle ui_instantiate(const LV2UI_Descriptor *descriptor, const char *plugin_uri, const char *bundle,
                                   LV2UI_Write_Function write, LV2UI_Controller host, LV2UI_Widget *widget,
                                   const LV2_Feature *const *features)
{
    static const struct plugin_window_face calls = {ui_get, ui_begin, ui_set, ui_end, ui_load, ui_state};
    (void)descriptor;
    char folder[CORE_PATH_BYTES], why[400] = "this is not a plugin of haloconv, or the host has no URIDs";
    const struct variant *variant = variant_of(plugin_uri);
    LV2_URID_Map *map = lv2_features_data(features, LV2_URID__map);
    struct ui *ui = variant && map ? calloc(1, sizeof *ui) : NULL;
    if (ui) {
        ui->variant = variant;
        ui->write = write, ui->host = host;
        ui->touch = lv2_features_data(features, LV2_UI__touch);
        uris_map(&ui->uris, map, plugin_uri, variant);
        lv2_atom_forge_init(&ui->forge, map);
        const LV2_Extension_Data_Feature *access = lv2_features_data(features, LV2_DATA_ACCESS_URI);
        ui->instance = lv2_features_data(features, LV2_INSTANCE_ACCESS_URI);
        if (ui->instance && access) ui->meters = access->data_access(METERS_URI);
        for (int c = 0; c < N_CONTROLS; c++) ui->values[c] = controls[c].initial;
        bundle_folder(bundle, folder);
        plugin_window_init(&ui->content, variant, folder, &calls, ui);
    }
    double scale = ui ? scale_of(ui, map, lv2_features_data(features, LV2_OPTIONS__options)) : 0;
    if (!ui || !ui_open_window(ui, features, scale, why, sizeof why)) {
        fprintf(stderr, "haloconv: %s\n", why);
        free(ui);
        return NULL;
    }
    ui_send_message(ui, NULL);
    *widget = (LV2UI_Widget)window_id(ui->window);
    return ui;
}

static const void *ui_extension_data(const char *uri)
{
    static const LV2UI_Idle_Interface idle_interface = {idle};
    static const LV2UI_Resize resize_interface = {NULL, resize};
    if (strcmp(uri, LV2_UI__idleInterface) == 0) return &idle_interface;
    return strcmp(uri, LV2_UI__resize) == 0 ? &resize_interface : NULL;
}

LV2_SYMBOL_EXPORT const LV2UI_Descriptor *lv2ui_descriptor(uint32_t index)
{
    static const LV2UI_Descriptor descriptor = {UI_URI, ui_instantiate, ui_cleanup, port_event, ui_extension_data};
    return index == 0 ? &descriptor : NULL;
}
