/* no_sequencer - stands in for the kernel's MIDI sequencer, so that Qtractor starts on a machine without one:
 *
 *   LD_PRELOAD=build/tests/no_sequencer.so qtractor session.qtr
 *
 * It accepts every call that Qtractor makes, and no event ever arrives.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct sequencer {
    int never; /* a descriptor that never becomes readable */
};

int snd_seq_open(struct sequencer **to, const char *name, int streams, int mode);
int snd_seq_open(struct sequencer **to, const char *name, int streams, int mode)
{
    (void)name, (void)streams, (void)mode;
    *to = malloc(sizeof **to);
    if (!*to) return -ENOMEM;
    (*to)->never = eventfd(0, EFD_CLOEXEC);
    return 0;
}

int snd_seq_close(struct sequencer *sequencer);
int snd_seq_close(struct sequencer *sequencer)
{
    close(sequencer->never);
    free(sequencer);
    return 0;
}

int snd_seq_poll_descriptors_count(void);
int snd_seq_poll_descriptors_count(void)
{
    return 1;
}

int snd_seq_poll_descriptors(struct sequencer *sequencer, struct pollfd *at);
int snd_seq_poll_descriptors(struct sequencer *sequencer, struct pollfd *at)
{
    *at = (struct pollfd){.fd = sequencer->never, .events = POLLIN};
    return 1;
}

/* Calls that only return a value; their arguments do not matter. */
#define RETURN(value, name)                                                                                            \
    int snd_seq_##name(void);                                                                                          \
    int snd_seq_##name(void)                                                                                           \
    {                                                                                                                  \
        return value;                                                                                                  \
    }
#define DONE(D)                                                                                                        \
    D(0, alloc_queue)                                                                                                  \
    D(0, client_id)                                                                                                    \
    D(0, control_queue)                                                                                                \
    D(0, create_simple_port)                                                                                           \
    D(0, delete_simple_port)                                                                                           \
    D(0, drain_output)                                                                                                 \
    D(0, drop_input)                                                                                                   \
    D(0, drop_output)                                                                                                  \
    D(0, event_input_pending)                                                                                          \
    D(0, event_output)                                                                                                 \
    D(0, event_output_direct)                                                                                          \
    D(0, free_event)                                                                                                   \
    D(0, free_queue)                                                                                                   \
    D(0, get_any_client_info)                                                                                          \
    D(0, get_any_port_info)                                                                                            \
    D(0, get_port_info)                                                                                                \
    D(0, get_queue_status)                                                                                             \
    D(0, get_queue_tempo)                                                                                              \
    D(0, remove_events)                                                                                                \
    D(0, set_client_name)                                                                                              \
    D(0, set_port_info)                                                                                                \
    D(0, set_queue_tempo)                                                                                              \
    D(0, set_queue_timer)                                                                                              \
    D(0, subscribe_port)                                                                                               \
    D(0, unsubscribe_port)
#define NONE(D)                                                                                                        \
    D(-ENOENT, query_next_client)                                                                                      \
    D(-ENOENT, query_next_port)                                                                                        \
    D(-ENOENT, query_port_subscribers)
DONE(RETURN)
NONE(RETURN)
