/* vst3_interfaces - the interfaces of VST3, from travesty, whose headers are C++ in two places. */
#ifndef VST3_INTERFACES_H
#define VST3_INTERFACES_H

typedef struct v3_event_handler v3_event_handler; /* names of travesty/view.h */
typedef struct v3_timer_handler v3_timer_handler;

#include <travesty/audio_processor.h>
#include <travesty/component.h>
#include <travesty/edit_controller.h>
#include <travesty/factory.h>

#endif
