/* fuzz - shared by the fuzz targets: a folder for their files, and properties that must hold.
 *
 * A target is a fuzz_NAME.c: it gives any bytes to the product's reader, and checks what the reader accepted. libFuzzer
 * makes the bytes (make fuzz), or replay.c reads them from tests/corpus/NAME (make test).
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "haloconv_masks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Changes to a new folder, which is removed at exit, and calls target_begin. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Prepares a target in that folder; a target may lack this function. */
void target_begin(void) __attribute__((weak));

/* Ends the program if the condition does not hold. */
#define must(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) must_failed(__FILE__, __LINE__, #condition);                                                 \
    } while (0)
_Noreturn void must_failed(const char *file, int line, const char *condition);

void file_put(const char *name, const void *bytes, size_t n);

/* Writes a.wav, of two channels and 60 frames at 44100 Hz. */
void sound_put(void);

/* Checks the result of a call of hc_responses_load for a configuration: code, diagnostics and limits. */
void configuration_look(int code, const char *why, const hc_responses *responses);

/* Checks the limits that haloconv_masks.h states for a mask that was read. */
void responses_look(const hc_responses *responses);

#endif
