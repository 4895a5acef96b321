#include "sndfile_faults.h"

#include <sndfile.h>
#include <stdio.h>
#include <string.h>

static const struct sndfile_fault faults[] = {
    /* sf_close writes beyond the end of a buffer. libsndfile's sources have a correction; no release up to July 2026
     * (1.2.2) has it. */
    {SF_FORMAT_ALAC_16, SF_FORMAT_ALAC_32, 10202, 973, "use --format caf:pcm24 or flac"},
};

const char *sndfile_release(void)
{
    const char *version = sf_version_string(), *dash = strchr(version, '-');
    return dash ? dash + 1 : version;
}

const struct sndfile_fault *sndfile_fault_find(int format)
{
    int subtype = format & SF_FORMAT_SUBMASK, major = 0, minor = 0, patch = 0;
    sscanf(sndfile_release(), "%d.%d.%d", &major, &minor, &patch);
    for (const struct sndfile_fault *fault = faults; fault < faults + sizeof faults / sizeof *faults; fault++)
        if (subtype >= fault->first_subtype && subtype <= fault->last_subtype &&
            major * 10000 + minor * 100 + patch <= fault->last_release)
            return fault;
    return NULL;
}
