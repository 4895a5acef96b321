#include "missing_gpu.h"

#include "dsp/haloconv.h"

#include <stdio.h>

void missing_gpu(char *why, size_t cap)
{
    const hc_config config = {.size = sizeof config, .backend = "cuda"};
    hc_engine *engine = NULL;
    snprintf(why, cap, "no NVIDIA GPU was found");
    if (hc_open(&config, &engine, why, cap) == HC_OK) hc_close(engine);
}
