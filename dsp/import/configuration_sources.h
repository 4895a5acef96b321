/* configuration_sources - checks the banks and the steered sources that a configuration names, and returns them without
 * reading a bank. */
#ifndef HALOCONV_CONFIGURATION_SOURCES_H
#define HALOCONV_CONFIGURATION_SOURCES_H

#include "configuration.h"

/* Fills in the sources and banks of *responses. is_wanted: the caller plays sources (HC_WITH_SOURCES). rate: that of
 * the session, or 0. Errors are added to the diagnostics. */
void configuration_sources(struct configuration *configuration, bool is_wanted, int rate, hc_responses *responses);

#endif
