/* vst3_classes - the class of each plugin, as the factory and moduleinfo.json list it, and ids. */
#ifndef VST3_CLASSES_H
#define VST3_CLASSES_H

#include "plugins/core/controls.h"

static const char vst3_category[] = "Audio Module Class", vst3_vendor[] = "haloconv", vst3_sdk[] = "VST 3.7.4";
enum { VST3_MANY_INSTANCES = 0x7fffffff }; /* VST3's cardinality of any number */

/* Sessions of hosts have these ids. Those of the other parameters are control_id. */
enum { VST3_PRESET = 0x70726573 };         /* parameter Preset: "pres" */
void vst3_class_id(const struct variant *variant, uint8_t id[16]);

const char *vst3_sub_categories(const struct variant *variant); /* "Fx|Spatial", ... */

#endif
