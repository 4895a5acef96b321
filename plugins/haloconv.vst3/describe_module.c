/* describe_module - writes the bundle's moduleinfo.json to the standard output. Hosts read it instead of loading the
 * plugin: the classes are those of the factory (vst3_entry.c).
 */
#include "haloconv.h"
#include "vst3_classes.h"

#include <stdio.h>

static void write_class(const struct variant *v, const char *end)
{
    uint8_t id[16];
    vst3_class_id(v, id);
    printf("    {\n      \"CID\": \"");
    for (int i = 0; i < 16; i++) printf("%02X", id[i]);
    printf("\",\n      \"Category\": \"%s\",\n      \"Name\": \"%s\",\n      \"Vendor\": \"%s\",\n", vst3_category,
           v->name, vst3_vendor);
    printf("      \"Version\": \"%s\",\n      \"SDKVersion\": \"%s\",\n      \"Sub Categories\": [\"", HC_VERSION,
           vst3_sdk);
    for (const char *at = vst3_sub_categories(v); *at; at++) *at == '|' ? printf("\", \"") : putchar(*at);
    printf("\"],\n      \"Class Flags\": 0,\n      \"Cardinality\": %d,\n      \"Snapshots\": []\n    }%s\n",
           VST3_MANY_INSTANCES, end);
}

int main(void)
{
    printf("{\n  \"Name\": \"haloconv\",\n  \"Version\": \"%s\",\n", HC_VERSION);
    printf("  \"Factory Info\": {\n    \"Vendor\": \"%s\",\n    \"URL\": \"\",\n    \"E-Mail\": \"\",\n", vst3_vendor);
    printf("    \"Flags\": {\n      \"Unicode\": true,\n      \"Classes Discardable\": false,\n"
           "      \"Component Non Discardable\": false\n    }\n  },\n  \"Compatibility\": [],\n  \"Classes\": [\n");
    for (int v = 0; v < N_VARIANTS; v++) write_class(&variants[v], v + 1 < N_VARIANTS ? "," : "");
    printf("  ]\n}\n");
    return ferror(stdout) || fflush(stdout) != 0;
}
