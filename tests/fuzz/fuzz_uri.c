/* Any bytes as a list of files that is dropped on the plugins' window. */
#include "fuzz.h"
#include "plugins/window/uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAP = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(size + 1, 1), path[CAP], again[CAP], address[16 + 3 * CAP] = "file://";
    must(text);
    if (size > 0) memcpy(text, data, size);
    if (uri_path(text, path, sizeof path)) {
        must(path[0] == '/' && strlen(path) < sizeof path);
        for (const char *c = path; *c; c++) sprintf(address + strlen(address), "%%%02x", (unsigned char)*c);
        must(!uri_path(address, again, sizeof again)); /* the path has to begin with a plain slash */
        memmove(address + 8, address + 10, strlen(address + 10) + 1);
        address[7] = '/';
        must(uri_path(address, again, sizeof again) && strcmp(path, again) == 0);
        must(!uri_path(address, again, strlen(path)));
    }
    free(text);
    return 0;
}
