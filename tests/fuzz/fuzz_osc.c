/* Any bytes as a packet to the OSC port of a live session. Gains stay within their limits, and a message that is encoded
 * again is read as the same. The command's file is included, because it obeys messages inside its loop only. */
#include "fuzz.h"
#include "packets.h"

#include "host/live/control.c"

static struct control control;
static struct osc_message first; /* that of the packet, with copies of its texts */
static char path[1 << 16], texts[OSC_MOST_TEXTS][1 << 16];
static int n_messages, from;

/* Masks are not loaded: the packets name any file. */
int __wrap_hc_live_request(hc_live *live, const hc_live_change *change);
int __wrap_hc_live_request(hc_live *live, const hc_live_change *change)
{
    must(live == control.live && change->mask && change->rate == 0 && change->block == 0);
    return HC_OK;
}

void target_begin(void)
{
    static const struct control_host host = {.name = "nothing"};
    static struct live_settings settings;
    struct session_settings session = {.live = {.size = sizeof(hc_live_config)}, .wet = 1, .gain = 1};
    struct sockaddr_in ours;
    hc_responses mask;
    char why[MESSAGE_CAP];
    file_put("through.txt", "1\n", 2);
    must(session_load(&session, "through.txt", 48000, &mask, why, sizeof why));
    control.settings = &settings;
    control.host = &host;
    control.session = session_open(&session, "through.txt", &mask, 48000, 64, why, sizeof why);
    must(control.session);
    control.live = session_live(control.session);
    control.osc = osc_open("0", why, sizeof why);
    must(control.osc);
    command_target_open(&control.target, control.session, &settings.masks, "through.txt");
    from = packets_open(&ours);
    message_set_quiet(true);
}

static void take(void *data, const struct osc_message *message)
{
    must(message->n_texts >= 0 && message->n_texts <= OSC_MOST_TEXTS && !(message->text && message->has_number));
    must(!message->text || (message->n_texts > 0 && message->text == message->texts[0]));
    if (n_messages++ == 0) {
        first = *message;
        strcpy(path, message->path);
        for (int i = 0; i < message->n_texts; i++) strcpy(texts[i], message->texts[i]);
    }
    take_message(data, message);
}

static void take_again(void *data, const struct osc_message *message)
{
    (void)data;
    must(strcmp(message->path, path) == 0 && message->n_texts == first.n_texts);
    for (int i = 0; i < message->n_texts; i++) must(strcmp(message->texts[i], texts[i]) == 0);
    n_messages++;
}

/* Sends the first message of the packet once more, without its numbers. */
static void send_again(void)
{
    static char packet[1 << 19];
    const char *list[OSC_MOST_TEXTS + 1] = {NULL};
    for (int i = 0; i < first.n_texts; i++) list[i] = texts[i];
    size_t n = packet_make(packet, sizeof packet, path, list);
    if (n > 65000) return;
    n_messages = 0;
    packets_send(from, osc_fd(control.osc), packet, n);
    osc_receive(control.osc, take_again, NULL);
    must(n_messages == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    n_messages = 0;
    packets_send(from, osc_fd(control.osc), data, size);
    osc_receive(control.osc, take, &control);
    for (int i = 0; i < COMMAND_GAINS; i++) {
        float now = hc_live_get(control.live, command_gains[i].knob);
        must(now >= 0 && now <= 1000.01f); /* 60 dB */
    }
    if (n_messages > 0) send_again();
    return 0;
}
