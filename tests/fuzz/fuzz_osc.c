/* Any bytes as a packet to the OSC port of a live session with two sources. Gains and places stay within their limits, and
 * a message that is encoded again is read as the same. */
#include "fuzz.h"
#include "packets.h"

#include "host/live/remotes/remote.h"
#include "host/message.h"

#include <math.h>
#include <string.h>

static struct command_target target;
static struct osc *osc;
static struct remote *remote;
static struct osc_message first; /* that of the packet, with copies of its texts */
static char path[1 << 16], texts[OSC_MAX_TEXTS][1 << 16];
static int n_messages, n_runs, from;

/* Masks are not loaded: the packets name any file. */
int __wrap_hc_live_request(hc_live *live, const hc_live_change *change);
int __real_hc_live_request(hc_live *live, const hc_live_change *change);
int __wrap_hc_live_request(hc_live *live, const hc_live_change *change)
{
    if (!target.session) return __real_hc_live_request(live, change); /* the first mask */
    must(live == session_live(target.session) && change->mask && change->rate == 0 && change->block == 0);
    return HC_OK;
}

static json_t *stats(void *data)
{
    (void)data;
    return json_object();
}

void target_begin(void)
{
    static char *names[] = {"through.txt", "other.txt"};
    static const struct option_names masks = {.list = names, .n = 2};
    struct session_settings settings = {.live = {.size = sizeof(hc_live_config), .n_sources = 2}, .wet = 1, .gain = 1};
    struct sockaddr_in ours;
    hc_responses mask;
    char why[MESSAGE_CAP];
    file_put("through.txt", "1\n", 2);
    must(session_load(&settings, "through.txt", 48000, &mask, why, sizeof why));
    struct session *session = session_open(&settings, "through.txt", &mask, 48000, 64, why, sizeof why);
    must(session);
    osc = osc_open("0", why, sizeof why);
    must(osc);
    command_target_open(&target, session, &masks, "through.txt");
    remote = remote_open(osc, &target, stats, NULL);
    must(remote);
    from = packets_open(&ours);
    message_set_quiet(true);
}

static void take(void *data, const struct osc_message *message)
{
    (void)data;
    must(message->n_texts >= 0 && message->n_texts <= OSC_MAX_TEXTS && !(message->text && message->has_number));
    must(!message->text || (message->n_texts > 0 && message->text == message->texts[0]));
    if (n_messages++ == 0) {
        first = *message;
        strcpy(path, message->path);
        for (int i = 0; i < message->n_texts; i++) strcpy(texts[i], message->texts[i]);
    }
    remote_handle(remote, message);
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
    const char *list[OSC_MAX_TEXTS + 1] = {NULL};
    for (int i = 0; i < first.n_texts; i++) list[i] = texts[i];
    size_t n = packet_make(packet, sizeof packet, path, list);
    if (n > 65000) return;
    n_messages = 0;
    packets_send(from, osc_fd(osc), packet, n);
    osc_receive(osc, take_again, NULL);
    must(n_messages == 1);
}

static void check_scene(void)
{
    struct live_scene *scene = session_scene(target.session);
    struct live_scene_source source;
    struct listener listener;
    live_scene_get_listener(scene, &listener);
    struct quaternion q = listener.head;
    must(fabs(q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z - 1) < 1e-9);
    for (int i = 0; i < live_scene_n_sources(scene); i++) {
        live_scene_get_source(scene, i, &source);
        must(source.gain_db <= 60 && fabs(source.aed[0]) <= 180 && fabs(source.aed[1]) <= 90);
        must(source.aed[2] >= 0 && source.seen[2] < 4e4);
        for (int k = 0; k < 3; k++) must(fabs(source.xyz[k]) <= 10000 && fabs(listener.at[k]) <= 10000);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    n_messages = 0;
    packets_send(from, osc_fd(osc), data, size);
    osc_receive(osc, take, NULL);
    for (int i = 0; i < COMMAND_GAINS; i++) {
        float now = session_get(target.session, command_gains[i].knob);
        must(now >= 0 && now <= 1000.01f); /* 60 dB */
    }
    check_scene();
    if (n_messages > 0) send_again();
    remote_tend(remote, n_runs++); /* subscribers, masks that are waited for */
    return 0;
}
