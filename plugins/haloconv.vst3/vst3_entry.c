/* vst3_entry - the list of plugins. Scanning it opens no file and no GPU. */
#include "haloconv.h"
#include "vst3_classes.h"
#include "vst3_face.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT bool ModuleEntry(void *library);
EXPORT bool ModuleExit(void);
EXPORT const void *GetPluginFactory(void);

enum { UNICODE = 0x10 }; /* the factory has classes whose texts are UTF-16 */

static v3_result V3_API get_class_2(void *self, int32_t index, struct v3_class_info_2 *info)
{
    (void)self;
    if (index < 0 || index >= N_VARIANTS || !info) return V3_INVALID_ARG;
    *info = (struct v3_class_info_2){.cardinality = VST3_MANY_INSTANCES};
    vst3_class_id(&variants[index], info->class_id);
    snprintf(info->category, sizeof info->category, "%s", vst3_category);
    snprintf(info->name, sizeof info->name, "%s", variants[index].name);
    snprintf(info->sub_categories, sizeof info->sub_categories, "%s", vst3_sub_categories(&variants[index]));
    snprintf(info->vendor, sizeof info->vendor, "%s", vst3_vendor);
    snprintf(info->version, sizeof info->version, "%s", HC_VERSION);
    snprintf(info->sdk_version, sizeof info->sdk_version, "%s", vst3_sdk);
    return V3_OK;
}

static v3_result V3_API get_class(void *self, int32_t index, struct v3_class_info *info)
{
    struct v3_class_info_2 more;
    if (!info || get_class_2(self, index, &more) != V3_OK) return V3_INVALID_ARG;
    *info = (struct v3_class_info){.cardinality = more.cardinality};
    memcpy(info->class_id, more.class_id, sizeof info->class_id);
    memcpy(info->category, more.category, sizeof info->category);
    memcpy(info->name, more.name, sizeof info->name);
    return V3_OK;
}

static v3_result V3_API get_class_3(void *self, int32_t index, struct v3_class_info_3 *info)
{
    struct v3_class_info_2 bytes;
    if (!info || get_class_2(self, index, &bytes) != V3_OK) return V3_INVALID_ARG;
    *info = (struct v3_class_info_3){.cardinality = bytes.cardinality};
    memcpy(info->class_id, bytes.class_id, sizeof info->class_id);
    memcpy(info->category, bytes.category, sizeof info->category);
    memcpy(info->sub_categories, bytes.sub_categories, sizeof info->sub_categories);
    vst3_text(bytes.name, info->name, 64);
    vst3_text(bytes.vendor, info->vendor, 64);
    vst3_text(bytes.version, info->version, 64);
    vst3_text(bytes.sdk_version, info->sdk_version, 64);
    return V3_OK;
}

static v3_result V3_API factory_get_info(void *self, struct v3_factory_info *info)
{
    (void)self;
    if (!info) return V3_INVALID_ARG;
    *info = (struct v3_factory_info){.flags = UNICODE};
    snprintf(info->vendor, sizeof info->vendor, "%s", vst3_vendor);
    return V3_OK;
}

static int32_t V3_API num_classes(void *self)
{
    (void)self;
    return N_VARIANTS;
}

static v3_result V3_API factory_create(void *self, const v3_tuid id, const v3_tuid iid, void **to)
{
    (void)self;
    char folder[CORE_PATH_BYTES];
    Dl_info here;
    v3_tuid own = {0};
    int v = 0;
    if (!to) return V3_INVALID_ARG;
    *to = NULL;
    if (!id || !iid) return V3_INVALID_ARG;
    while (v < N_VARIANTS && (vst3_class_id(&variants[v], own), !v3_tuid_match(own, id))) v++;
    if (v == N_VARIANTS) return V3_NO_INTERFACE;
    core_find_folder(dladdr(vst3_category, &here) && here.dli_fname ? here.dli_fname : "", folder);
    struct vst3 *face = vst3_create(&variants[v], folder);
    if (!face) return V3_NOMEM;
    v3_result result = vst3_query(face, iid, to);
    vst3_unref(face);
    return result;
}

static v3_result V3_API set_host_context(void *self, struct v3_funknown **host)
{
    (void)self, (void)host;
    return V3_OK;
}

/* The factory lives as long as the library. */
static uint32_t V3_API factory_keep(void *self)
{
    (void)self;
    return 1;
}

static v3_result V3_API factory_query(void *self, const v3_tuid iid, void **to)
{
    static const v3_tuid *const own[] = {&v3_funknown_iid, &v3_plugin_factory_iid, &v3_plugin_factory_2_iid,
                                         &v3_plugin_factory_3_iid};
    if (!to) return V3_INVALID_ARG;
    *to = NULL;
    for (size_t i = 0; iid && i < sizeof own / sizeof *own; i++)
        if (v3_tuid_match(*own[i], iid)) return *to = self, V3_OK;
    return V3_NO_INTERFACE;
}

EXPORT const void *GetPluginFactory(void)
{
    static const struct v3_plugin_factory_3 calls = {.query_interface = factory_query,
                                                     .ref = factory_keep,
                                                     .unref = factory_keep,
                                                     .get_factory_info = factory_get_info,
                                                     .num_classes = num_classes,
                                                     .get_class_info = get_class,
                                                     .create_instance = factory_create,
                                                     .get_class_info_2 = get_class_2,
                                                     .get_class_info_utf16 = get_class_3,
                                                     .set_host_context = set_host_context};
    static const struct v3_plugin_factory_3 *const factory = &calls;
    return &factory;
}

EXPORT bool ModuleEntry(void *library)
{
    (void)library;
    return true;
}

EXPORT bool ModuleExit(void)
{
    return true;
}
