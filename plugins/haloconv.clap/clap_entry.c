/* clap_entry - the list of plugins. Scanning it opens no file and no GPU. */
#include "face.h"
#include "haloconv.h"

#include <clap/entry.h>
#include <clap/plugin-factory.h>
#include <stdio.h>
#include <string.h>

static char plugin_file[CORE_PATH_BYTES]; /* set by init, before any other call */

enum { MONO, STEREO, MATRIX, SOURCE, N_KINDS };
static const char *features[N_KINDS][5] = {
    [MONO] = {CLAP_PLUGIN_FEATURE_AUDIO_EFFECT, CLAP_PLUGIN_FEATURE_REVERB, CLAP_PLUGIN_FEATURE_FILTER,
              CLAP_PLUGIN_FEATURE_MONO},
    [STEREO] = {CLAP_PLUGIN_FEATURE_AUDIO_EFFECT, CLAP_PLUGIN_FEATURE_REVERB, CLAP_PLUGIN_FEATURE_FILTER,
                CLAP_PLUGIN_FEATURE_STEREO},
    [MATRIX] = {CLAP_PLUGIN_FEATURE_AUDIO_EFFECT, CLAP_PLUGIN_FEATURE_FILTER, CLAP_PLUGIN_FEATURE_SURROUND},
    [SOURCE] = {CLAP_PLUGIN_FEATURE_AUDIO_EFFECT, CLAP_PLUGIN_FEATURE_MIXING, CLAP_PLUGIN_FEATURE_STEREO}};

#define KIND(n_out, n_sources) ((n_sources) > 0 ? SOURCE : (n_out) > 2 ? MATRIX : (n_out) == 2 ? STEREO : MONO)
#define DESCRIPTOR(symbol, label, n_in, n_out, n_sources, mask)                                                        \
    {.clap_version = CLAP_VERSION_INIT,                                                                                \
     .id = PLUGIN_ID #symbol,                                                                                          \
     .name = (label),                                                                                                  \
     .vendor = "haloconv",                                                                                             \
     .url = "",                                                                                                        \
     .manual_url = "",                                                                                                 \
     .support_url = "",                                                                                                \
     .version = HC_VERSION,                                                                                            \
     .description = variant_comments[(n_sources) > 0],                                                                 \
     .features = features[KIND(n_out, n_sources)]},
static const clap_plugin_descriptor_t descriptors[N_VARIANTS] = {VARIANTS(DESCRIPTOR)};

static uint32_t CLAP_ABI plugin_count(const clap_plugin_factory_t *factory)
{
    (void)factory;
    return N_VARIANTS;
}

static const clap_plugin_descriptor_t *CLAP_ABI plugin_descriptor(const clap_plugin_factory_t *factory, uint32_t index)
{
    (void)factory;
    return index < N_VARIANTS ? &descriptors[index] : NULL;
}

static const clap_plugin_t *CLAP_ABI create_plugin(const clap_plugin_factory_t *factory, const clap_host_t *host,
                                                   const char *id)
{
    (void)factory;
    char folder[CORE_PATH_BYTES];
    int v = 0;
    if (!host || !id || !clap_version_is_compatible(host->clap_version)) return NULL;
    while (v < N_VARIANTS && strcmp(descriptors[v].id, id) != 0) v++;
    if (v == N_VARIANTS) return NULL;
    if (!core_find_folder(plugin_file, folder)) face_unpack_masks(folder);
    return face_create(&descriptors[v], &variants[v], folder, host);
}

static bool CLAP_ABI clap_entry_init(const char *path)
{
    return path && (size_t)snprintf(plugin_file, sizeof plugin_file, "%s", path) < sizeof plugin_file;
}

static void CLAP_ABI deinit(void) {}

static const void *CLAP_ABI get_factory(const char *id)
{
    static const clap_plugin_factory_t plugins = {plugin_count, plugin_descriptor, create_plugin};
    if (id && strcmp(id, CLAP_PLUGIN_FACTORY_ID) == 0) return &plugins;
    return id && strcmp(id, MORE_PRESET_DISCOVERY) == 0 ? &face_preset_discovery : NULL;
}

CLAP_EXPORT const clap_plugin_entry_t clap_entry = {CLAP_VERSION_INIT, clap_entry_init, deinit, get_factory};
