/* take_portaudio - takes through PortAudio. */
#include "host/message.h"
#include "take_driver.h"

static bool open_card(struct take *t, char *why, size_t cap)
{
    (void)t;
    return message_write(why, cap, "portaudio: this build has no PortAudio; install portaudio19-dev and build again");
}

static void close_card(struct take *t)
{
    (void)t;
}

const struct take_driver take_portaudio = {
    .gap = "close other programs",
    .open = open_card,
    .close = close_card,
};
