/* take - plays a sound on one output of a sound card while it records all inputs, to the frame.
 *
 * One take at a time, on the thread that opened it. SIGINT and SIGTERM are blocked from take_open to take_close;
 * they end a take.
 */
#ifndef TAKE_H
#define TAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct take_settings {
    const char *api;            /* "jack" or "portaudio"                                                          */
    /* PortAudio: a device by number or name; NULL: the default one. JACK: ports and clients, separated by commas; the
     * ports of a client are used in their order; NULL: the ports of the sound card. */
    const char *output_device, *input_device;
    const char *server;         /* JACK's server; NULL: the default one                                           */
    int rate;                   /* Hz; 0: that of the server or the output device                                 */
    int n_outputs, n_inputs;
};

struct take;

/* Does a JACK server play? server: NULL: the default one. false in a build without JACK, too. */
bool take_has_jack(const char *server);

/* Opens the sound card and waits until it plays. NULL: why has the reason, such as a server that hangs. */
struct take *take_open(const struct take_settings *settings, char *why, size_t cap);

int take_rate(const struct take *take);

/* Writes the target of an output: JACK's port, or PortAudio's device as "API: NAME". */
void take_output_name(const struct take *take, int output, char *name, size_t cap);

/* Plays play[n_play] on output `output` (0 ...), silence on the others, and records all inputs until there are n_record
 * frames. Frame 0 of record is the input of the cycle that plays frame 0 of play: on JACK a client that adds no latency
 * answers in the same frame. record: [n_inputs][n_record].
 *
 * progress is called several times a second with the number of recorded frames; NULL: never. false: a gap in the sound,
 * the end of the server or a signal made the take worthless, and why has the reason. After a gap the next take can
 * succeed; after the end of the server or a signal it fails for the same reason. */
bool take_play(struct take *take, int output, const float *play, int64_t n_play, float *const *record, int64_t n_record,
               void (*progress)(void *data, int64_t frames), void *data, char *why, size_t cap);

/* NULL is allowed. */
void take_close(struct take *take);

#endif
