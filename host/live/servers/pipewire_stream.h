/* pipewire_stream - a virtual sink or microphone of the desktop: two streams of PipeWire with the session between them.
 *
 *   sink       programs  --> [capture stream, class Audio/Sink] --> session --> [playback stream] --> a device
 *   source     a device  --> [capture stream] --> session --> [playback stream, class Audio/Source] --> programs
 *
 * The capture stream's process triggers that of the playback stream in the same cycle, which convolves from the buffers
 * of one to the buffers of the other: no buffer lies between them, and no latency is added. A session manager such as
 * WirePlumber gives the streams their ports and links the other stream to the device that the user names, or to the
 * default one.
 */
#ifndef HALOCONV_PIPEWIRE_STREAM_H
#define HALOCONV_PIPEWIRE_STREAM_H

#include "port_host.h"

extern const struct port_server pipewire_stream_server;

#endif
