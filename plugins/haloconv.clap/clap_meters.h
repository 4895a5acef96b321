/* clap_meters - an extension of our own: the outputs of the controls' table. CLAP's parameters are for what users set.
 */
#ifndef CLAP_METERS_H
#define CLAP_METERS_H

#include <clap/plugin.h>

#define CLAP_METERS "haloconv.meters"
struct clap_meters {
    float(CLAP_ABI *get)(const clap_plugin_t *plugin, const char *symbol); /* -1: it has none; any thread */
};

#endif
