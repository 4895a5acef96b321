/* vst3_face - an instance of a VST3 plugin. One object is the component, its processor and its controller: they share
 * the plugin core. The controls that the host shows are another copy, for VST3 changes the core's values by queues.
 *
 *   host's window    set_parameter_normalised --> shown; while inactive core, too
 *   our window       vst3_view.c ---------------> core, shown and host
 *   audio            process, queues -----------> core
 *   state            set_state -----------------> core and shown
 */
#ifndef VST3_FACE_H
#define VST3_FACE_H

#include "plugins/core/core.h"
#include "vst3_classes.h"
#include "vst3_interfaces.h"

#include <stdatomic.h>

enum { PIECE = 256 }; /* frames that are converted from and to 64 bits, or play without an input, at once */

/* Each of the first four is an interface: the host knows the object by their addresses. */
struct vst3 {
    const struct v3_component *component;
    const struct v3_audio_processor *processor;
    const struct v3_edit_controller *controller;
    const struct v3_process_context_requirements *needs;
    atomic_uint n_refs;
    struct core *core;
    v3_speaker_arrangement speakers[2];  /* by enum v3_bus_direction; 0: none yet; setup                           */
    struct v3_process_setup setup;       /* setup; the audio thread reads it while active                          */
    atomic_bool is_active;
    float (*pieces)[PIECE];              /* [n_in + n_out]; audio                                                  */
    int64_t unsent;                      /* frames since the meters were last sent; audio                          */
    double sent[N_CONTROLS];             /* values of the meters that the host has, normalised; audio              */
    _Atomic double shown[N_CONTROLS];    /* values of the core's controls; any thread                              */
    int preset;                          /* the choice of the host since the last state; 0: none; main thread      */
    uint64_t chosen;                     /* the last request for a mask, if made while active; 0: none; main thread */
    char log[CORE_PATH_BYTES];           /* file that gets all messages; "": the standard error gets warnings      */
    struct v3_component_handler **handler; /* of the host; NULL: none; main thread                                 */
};

/* The object of an interface: `part` is the field that has the address `self`. */
#define VST3_PART_OF(self, type, part) ((type *)(void *)((char *)(self) - offsetof(type, part)))
#define VST3_OF(self, interface) VST3_PART_OF(self, struct vst3, interface)

/* The first three calls of an interface of an object: those of the object, name_query, name_ref and name_unref. */
#define VST3_COUNTED(type, name, part)                                                                                 \
    static v3_result V3_API part##_query(void *self, const v3_tuid iid, void **to)                                     \
    {                                                                                                                  \
        return name##_query(VST3_PART_OF(self, type, part), iid, to);                                                  \
    }                                                                                                                  \
    static uint32_t V3_API part##_ref(void *self)                                                                      \
    {                                                                                                                  \
        return name##_ref(VST3_PART_OF(self, type, part));                                                             \
    }                                                                                                                  \
    static uint32_t V3_API part##_unref(void *self)                                                                    \
    {                                                                                                                  \
        return name##_unref(VST3_PART_OF(self, type, part));                                                           \
    }

/* These calls, in the table of an interface. */
#define VST3_CALLS(part) .query_interface = part##_query, .ref = part##_ref, .unref = part##_unref

/* vst3_params.c */
extern const struct v3_edit_controller vst3_controller;
double vst3_from_normalised(int control, double normalised); /* to a value of the core's control                   */
double vst3_to_normalised(int control, double value);
int vst3_find(const struct vst3 *face, v3_param_id id);      /* N_CONTROLS: there is no such parameter             */
bool vst3_is_meter(int control);                             /* a parameter that the plugin sets                   */
void vst3_show(struct vst3 *face);                           /* the core's values                                  */
void vst3_notify_of_values(struct vst3 *face);               /* the host; main thread                              */
void vst3_text(const char *text, int16_t *to, size_t cap);   /* UTF-16                                             */

/* vst3_presets.c: main thread. Choices: 0 and the presets that fit the plugin, from 1 */
int vst3_n_presets(const struct vst3 *face);                 /* 0: there is no such parameter                      */
int vst3_preset_choice(const struct vst3 *face, double normalised);
int vst3_preset_default(const struct vst3 *face);            /* of a new instance                                  */
int vst3_preset_now(const struct vst3 *face);
void vst3_preset_load(struct vst3 *face, int choice);
void vst3_note_request(struct vst3 *face, uint64_t number);  /* for a mask, by core_choose_mask or core_load_preset */
bool vst3_is_loading(const struct vst3 *face);               /* the mask of that request                           */
const char *vst3_preset_text(const struct vst3 *face, int choice);
int vst3_preset_read(const struct vst3 *face, const char *text); /* -1: no choice has this text                    */

/* vst3_process.c: audio */
v3_result V3_API vst3_process(void *self, struct v3_process_data *data);

/* vst3_view.c: main thread; a build without X11 lacks it. NULL: no memory */
struct v3_plugin_view **vst3_view_create(struct vst3 *face); /* with one reference                                 */

/* vst3_plugin.c: any thread */
void vst3_report(void *face, int level, const char *text);   /* level: enum hc_live_level                          */
v3_result vst3_query(struct vst3 *face, const v3_tuid iid, void **to);
uint32_t vst3_ref(struct vst3 *face);
uint32_t vst3_unref(struct vst3 *face);
struct vst3 *vst3_create(const struct variant *variant, const char *folder); /* with one reference                 */

#endif
