/* clap_presets - presets and files that the host's browser offers, and how they are loaded. A file is a mask or bank,
 * and leaves the controls as they are.
 */
#include "face.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- loading ------------------------------------------------------------------------------------ */

static const char *location_of(const struct face *f)
{
    return f->preset_kind == MORE_LOCATION_FILE ? f->preset_location : NULL;
}

static const char *key_of(const struct face *f)
{
    return f->preset_key[0] ? f->preset_key : NULL;
}

/* Reports the end of the request. why: NULL, it was loaded. */
static void clap_preset_answer(struct face *f, const char *why)
{
    f->preset_request = 0;
    if (!f->presets) return;
    if (why)
        f->presets->on_error(f->host, f->preset_kind, location_of(f), key_of(f), 0, why);
    else
        f->presets->loaded(f->host, f->preset_kind, location_of(f), key_of(f));
}

static const char replaced[] = "another mask was asked for meanwhile";

void face_answer_preset(struct face *f)
{
    char why[ANSWER_CAP];
    enum answer result = f->preset_request ? core_answer(f->core, f->preset_request, why) : ANSWER_PENDING;
    if (result == ANSWER_PENDING) return;
    clap_preset_answer(f, result == ANSWER_GOOD ? NULL : result == ANSWER_FAILED ? why : replaced);
}

static const struct plugin_preset *clap_preset_find(const struct face *f, const char *key)
{
    for (int i = 0; key && i < N_PRESETS; i++)
        if (strcmp(plugin_presets[i].symbol, key) == 0 && preset_fits(&plugin_presets[i], core_variant(f->core)))
            return &plugin_presets[i];
    return NULL;
}

static bool CLAP_ABI from_location(const clap_plugin_t *plugin, uint32_t kind, const char *location, const char *key)
{
    struct face *f = face_of(plugin);
    if (!face_is_on_main(f, "preset_load.from_location")) return false;
    const struct plugin_preset *preset = kind == MORE_LOCATION_PLUGIN ? clap_preset_find(f, key) : NULL;
    const char *why = NULL;
    errno = 0;
    if (kind != MORE_LOCATION_FILE && !preset)
        why = "this plugin has no such preset";
    else if (!preset && (!location || strlen(location) >= sizeof f->preset_location))
        why = "the path is missing or too long";
    else if (key && strlen(key) >= sizeof f->preset_key)
        why = "the key is too long";
    else if (!preset && access(location, R_OK) != 0)
        why = "the file cannot be read; check its path and rights";
    if (why) { /* the request before stays */
        if (f->presets) f->presets->on_error(f->host, kind, location, key, errno, why);
        return false;
    }
    face_answer_preset(f);
    if (f->preset_request) clap_preset_answer(f, replaced);
    f->preset_kind = kind;
    snprintf(f->preset_location, sizeof f->preset_location, "%s", location ? location : "");
    snprintf(f->preset_key, sizeof f->preset_key, "%s", key ? key : "");
    f->preset_request = preset ? core_load_preset(f->core, preset) : core_choose_mask(f->core, location);
    if (preset) face_rescan(f);
    return true;
}

const struct more_preset_load face_preset_load = {from_location};

/* ---- the list for the host's browser ------------------------------------------------------------ */

static const struct more_provider_descriptor descriptor = {CLAP_VERSION_INIT, "haloconv.presets", "haloconv presets",
                                                           "haloconv"};

static bool CLAP_ABI provider_init(const struct more_provider *provider)
{
    const struct more_indexer *indexer = provider->provider_data;
    return indexer->declare_location(
        indexer,
        &(struct more_location){.flags = MORE_IS_FACTORY_CONTENT, .name = "haloconv", .kind = MORE_LOCATION_PLUGIN});
}

static void CLAP_ABI provider_destroy(const struct more_provider *provider)
{
    free((void *)(uintptr_t)provider);
}

static bool CLAP_ABI get_metadata(const struct more_provider *provider, uint32_t kind, const char *location,
                                  const struct more_metadata_receiver *to)
{
    (void)provider, (void)location;
    if (kind != MORE_LOCATION_PLUGIN) return false;
    for (const struct plugin_preset *s = plugin_presets; s < plugin_presets + N_PRESETS; s++) {
        if (!to->begin_preset(to, s->label, s->symbol)) return true; /* the host wants no more */
        for (int v = 0; v < N_VARIANTS; v++) {
            char id[64];
            if (!preset_fits(s, &variants[v])) continue;
            snprintf(id, sizeof id, PLUGIN_ID "%s", variants[v].symbol);
            to->add_plugin_id(to, &(struct more_plugin_id){"clap", id});
        }
        to->set_flags(to, MORE_IS_FACTORY_CONTENT);
    }
    return true;
}

static const void *CLAP_ABI provider_extension(const struct more_provider *provider, const char *id)
{
    (void)provider, (void)id;
    return NULL;
}

static uint32_t CLAP_ABI provider_count(const struct more_preset_discovery *factory)
{
    (void)factory;
    return 1;
}

static const struct more_provider_descriptor *CLAP_ABI provider_descriptor(const struct more_preset_discovery *factory,
                                                                           uint32_t index)
{
    (void)factory;
    return index == 0 ? &descriptor : NULL;
}

static const struct more_provider *CLAP_ABI provider_create(const struct more_preset_discovery *factory,
                                                            const struct more_indexer *indexer, const char *id)
{
    (void)factory;
    struct more_provider *provider = indexer && id && strcmp(id, descriptor.id) == 0 ? malloc(sizeof *provider) : NULL;
    if (provider)
        *provider = (struct more_provider){&descriptor,  (void *)(uintptr_t)indexer, provider_init, provider_destroy,
                                           get_metadata, provider_extension};
    return provider;
}

const struct more_preset_discovery face_preset_discovery = {provider_count, provider_descriptor, provider_create};
