/* OSC packets of strangers: osc.c reads any bytes, one call of osc_receive is short, and few packets are sent. */
#include "check.h"
#include "host/live/remotes/osc.h"
#include "host/live/remotes/remote.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_BYTES = 65000, ROUNDS = SANITIZED ? 4000 : 20000 };

static char why[200];
static int sender;
static struct osc *osc;
static struct seen {
    int messages;
    size_t bytes; /* of paths and texts, which must end inside the packet */
    double sum;
} seen;

static void take(void *data, const struct osc_message *message)
{
    seen.messages++;
    seen.bytes += strlen(message->path);
    if (message->text) seen.bytes += strlen(message->text);
    for (int i = 0; i < message->n_texts; i++) seen.bytes += strlen(message->texts[i]);
    if (message->has_number) seen.sum += message->number;
}

static void open_osc(void)
{
    if (osc) osc_close(osc); /* of a test that failed */
    osc = osc_open("0", why, sizeof why);
    if (!osc && strstr(why, "no liblo")) check_skip(why);
    check(osc, "%s", why);
    struct sockaddr_in there = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)osc_port(osc)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (sender) close(sender);
    sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    check(connect(sender, (struct sockaddr *)&there, sizeof there) == 0, "no socket");
    seen = (struct seen){0};
}

static void close_osc(void)
{
    osc_close(osc);
    close(sender);
    osc = NULL;
    sender = 0;
}

static void send_packet(const char *packet, size_t bytes)
{
    check(send(sender, packet, bytes, 0) == (ssize_t)bytes, "%zu bytes cannot be sent", bytes);
}

static size_t put_size(char *packet, size_t at, size_t size)
{
    uint32_t word = htonl((uint32_t)size);
    memcpy(packet + at, &word, 4);
    return at + 4;
}

static size_t put_bundle(char *packet, size_t at)
{
    memcpy(packet + at, "#bundle\0\0\0\0\0\0\0\0\1", 16);
    return at + 16;
}

/* A message, then a packet that is not OSC or breaks a rule: the handler gets the message only. */
static void packets_that_break_the_rules_are_dropped(const char *backend)
{
#define PACKET(text)                                                                                                   \
    {                                                                                                                  \
        text, sizeof text - 1                                                                                          \
    }
    static const struct {
        const char *bytes;
        size_t n;
    } packets[] = {
        PACKET("r"),
        PACKET("rubbish"),
        PACKET("#bundle"),
        PACKET("#bundle\0"),
        PACKET("#bundle\0\0\0\0\0\0\0\0"),
        PACKET("/gain\0\0\0,s\0\0"),     /* a string that is missing */
        PACKET("/gain\0\0\0,s\0\0abcd"), /* a string that does not end */
        PACKET("/gain\0\0\0,b\0\0\x7f\xff\xff\xff"
               "abcd"), /* a blob longer than the packet */
        PACKET("/gain\0\0\0,b\0\0\xff\xff\xff\xff"),
        PACKET("/gain\0\0\0,ffff\0\0\0abcd"), /* numbers that are missing */
        PACKET("/gain\0\0\0,h\0\0abcd"),
        PACKET("/gain\0\0\0,zz\0"),                  /* an unknown type */
        PACKET("/gain\0\0\0s\0\0\0"),                /* types without a comma */
        PACKET("/gain\0\0\0,ssssssss"),              /* types that do not end */
        PACKET("#bundle\0\0\0\0\0\0\0\0\1\0\0\0\0"), /* elements of wrong sizes */
        PACKET("#bundle\0\0\0\0\0\0\0\0\1\xff\xff\xff\xff/abc"),
        PACKET("#bundle\0\0\0\0\0\0\0\0\1\0\0\0\x10/abc"),
    };
#undef PACKET
    open_osc();
    for (size_t i = 0; i < sizeof packets / sizeof *packets; i++) {
        seen = (struct seen){0};
        send_packet("/ok\0,\0\0\0", 8);
        send_packet(packets[i].bytes, packets[i].n);
        osc_receive(osc, take, NULL);
        check(seen.messages == 1, "packet %zu: %d messages", i, seen.messages);
    }
    close_osc();
}

static void bundles_are_read_to_a_limited_depth(const char *backend)
{
    static char packet[MAX_BYTES];
    open_osc();
    for (int depth = 0; depth < 2000; depth += depth < 12 ? 1 : 663) {
        size_t n = 0, bytes = 20 * (size_t)depth + 8;
        for (int i = 0; i < depth; i++) n = put_size(packet, put_bundle(packet, n), bytes - 20 * (size_t)(i + 1));
        memcpy(packet + n, "/ok\0,\0\0\0", 8);
        seen = (struct seen){0};
        send_packet(packet, bytes);
        osc_receive(osc, take, NULL);
        check(seen.messages == (depth <= 8), "depth %d: %d messages", depth, seen.messages);
    }
    close_osc();
}

/* A bundle of as many messages as fit. */
static size_t put_many(char *packet, const char message[8])
{
    size_t n = put_bundle(packet, 0);
    while (n + 12 <= MAX_BYTES) {
        n = put_size(packet, n, 8);
        memcpy(packet + n, message, 8);
        n += 8;
    }
    return n;
}

static void answer(void *data, const struct osc_message *message)
{
    osc_send_to(osc, message->from, "/answer", "f", 0.5);
    take(data, message);
}

/* Receives what has arrived; returns how many packets begin with this path. */
static int count_packets(const char *path)
{
    static char packet[MAX_BYTES];
    int n = 0;
    for (ssize_t bytes; (bytes = recv(sender, packet, sizeof packet, MSG_DONTWAIT)) >= 0;)
        n += bytes > (ssize_t)strlen(path) && strcmp(packet, path) == 0;
    return n;
}

/* One packet has 5416 messages that ask for an answer. */
static void a_packet_has_few_answers(const char *backend)
{
    static char packet[MAX_BYTES];
    open_osc();
    send_packet(packet, put_many(packet, "/ok\0,\0\0\0"));
    osc_receive(osc, answer, NULL);
    int n = count_packets("/answer");
    check(seen.messages > 5000 && n > 0 && n <= 128, "%d answers to %d messages", n, seen.messages);
    send_packet("/ok\0,\0\0\0", 8);
    osc_receive(osc, answer, NULL);
    check(count_packets("/answer") == 1, "no answer in the next turn");
    close_osc();
}

/* The error of a packet to a closed port neither ends the receiving nor costs the next peer its answer. */
static void a_closed_port_is_told(const char *backend)
{
    struct osc_peer gone = {.size = sizeof(struct sockaddr_in)}, told;
    struct sockaddr_in *address = (struct sockaddr_in *)&gone.address;
    socklen_t size = sizeof *address;
    open_osc();
    int closed = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(bind(closed, (struct sockaddr *)address, size) == 0 &&
              getsockname(closed, (struct sockaddr *)address, &size) == 0,
          "no socket");
    close(closed);
    check(!osc_next_unreachable(osc, &told), "a peer is gone before anything was sent");
    osc_send_to(osc, &gone, "/lost", "");
    send_packet("/ok\0,\0\0\0", 8);
    osc_receive(osc, answer, NULL);
    check(count_packets("/answer") == 1, "no answer");
    osc_send_to(osc, &gone, "/lost", "");
    check(osc_next_unreachable(osc, &told) && osc_same_peer(&told, &gone), "the closed port was not told");
    while (osc_next_unreachable(osc, &told)) continue;
    close_osc();
}

/* ---- a thread that takes some messages first --------------------------------------------------- */

static int n_first;

static bool take_first(void *data, const struct osc_message *message)
{
    n_first++;
    return strcmp(message->path, "/ok") == 0;
}

/* Those that it leaves come with their sender, also from inside a bundle; osc_join gives all back. */
static void messages_that_the_first_thread_leaves_go_on(const char *backend)
{
    static char packet[MAX_BYTES];
    open_osc();
    check(osc_split(osc, why, sizeof why), "%s", why);
    size_t n = put_bundle(packet, 0);
    for (int i = 0; i < 6; i++) {
        n = put_size(packet, n, 8);
        memcpy(packet + n, i % 2 ? "/no\0,\0\0\0" : "/ok\0,\0\0\0", 8);
        n += 8;
    }
    send_packet(packet, n);
    n_first = 0;
    check(osc_handle_first(osc, take_first, NULL) == 6 && n_first == 6, "%d messages", n_first);
    osc_receive(osc, answer, NULL);
    check(seen.messages == 3 && count_packets("/answer") == 3, "%d messages went on", seen.messages);
    double start = now_s();
    check(osc_handle_first(osc, take_first, NULL) == 0 && now_s() - start < 5, "it waits for ever");
    osc_join(osc);
    send_packet("/no\0,\0\0\0", 8);
    osc_receive(osc, answer, NULL);
    check(seen.messages == 4 && count_packets("/answer") == 1, "%d messages after osc_join", seen.messages);
    close_osc();
}

/* The other thread takes nothing: the first one is not kept waiting, and the largest packet gets through later. */
static void messages_that_nobody_receives_keep_nobody_waiting(const char *backend)
{
    static char packet[MAX_BYTES] = "/no\0,s\0\0";
    open_osc();
    check(osc_split(osc, why, sizeof why), "%s", why);
    memset(packet + 8, 'x', MAX_BYTES - 9);
    double start = now_s();
    for (int i = 0; i < 50; i++) {
        send_packet(packet, MAX_BYTES);
        check(osc_handle_first(osc, take_first, NULL) == 1, "packet %d", i);
    }
    check(now_s() - start < 10, "it waits");
    osc_receive(osc, take, NULL);
    check(seen.messages >= 1 && seen.messages < 50, "%d messages went on", seen.messages);
    osc_receive(osc, take, NULL);
    send_packet(packet, MAX_BYTES);
    osc_handle_first(osc, take_first, NULL);
    int before = seen.messages;
    osc_receive(osc, take, NULL);
    check(seen.messages == before + 1, "the largest packet is lost");
    close_osc();
}

/* ---- subscribers, by a clock of the test ------------------------------------------------------- */

static struct session *open_session(void)
{
    struct session_settings settings = {.live = {.size = sizeof(hc_live_config)}, .wet = 1, .gain = 1};
    char path[] = "/tmp/hc_osc_XXXXXX.txt";
    hc_responses mask;
    int fd = mkstemps(path, 4);
    check(fd >= 0 && write(fd, "1\n", 2) == 2 && close(fd) == 0, "%s cannot be written", path);
    bool is_loaded = session_load(&settings, path, 48000, &mask, why, sizeof why);
    unlink(path);
    check(is_loaded, "%s", why);
    struct session *session = session_open(&settings, path, &mask, 48000, 64, why, sizeof why);
    check(session, "%s", why);
    return session;
}

static struct command_target target;

/* Opens osc, the session of the target, and a remote. */
static struct remote *open_remote(remote_stats *stats, void *data)
{
    static const struct option_names none;
    open_osc();
    struct session *session = open_session();
    command_target_open(&target, session, &none, "");
    struct remote *remote = remote_open(osc, &target, stats, data);
    check(remote, "no memory");
    return remote;
}

static void close_remote(struct remote *remote)
{
    remote_close(remote);
    session_close(target.session);
    close_osc();
}

/* It subscribes again after 59 s, and has 60 more. */
static void a_subscription_ends_after_a_minute(const char *backend)
{
    static const char subscribe[] = "/subscribe\0\0,\0\0";
    struct remote *remote = open_remote(NULL, NULL);
    struct session *session = target.session;
    send_packet(subscribe, sizeof subscribe);
    remote_tend(remote, 1000);
    check(count_packets("/subscribe") == 1, "no answer to /subscribe");
    for (int i = 0; i < 1000; i++) { /* the state is sent 20 times a second, however often it changes */
        session_set(session, HC_GAIN, (float)i / 1000);
        remote_tend(remote, 1000 + 1e-3 * i);
    }
    int n = count_packets("/gain");
    check(n >= 10 && n <= 21, "%d messages in a second", n);
    send_packet(subscribe, sizeof subscribe);
    remote_tend(remote, 1059);
    remote_tend(remote, 1118);
    check(count_packets("/unsubscribe") == 0, "it ended early");
    remote_tend(remote, 1120);
    check(count_packets("/unsubscribe") == 1, "its end was not told");
    session_set(session, HC_GAIN, 2);
    remote_tend(remote, 1121);
    check(count_packets("/gain") == 0, "it did not end");
    close_remote(remote);
}

static json_t *many_stats(void *data)
{
    return json_pack("{s:s}", "text", (const char *)data);
}

/* A packet of UDP has 65507 bytes. */
static void statistics_of_any_length_are_answered(const char *backend)
{
    static const char ask[] = "/stats\0\0,\0\0";
    static char text[66000];
    struct remote *remote = open_remote(many_stats, text);
    for (size_t n = 65400; n < 65600; n++) {
        memset(text, 'x', n);
        text[n] = 0;
        send_packet(ask, sizeof ask);
        remote_tend(remote, 1000 + 0.1 * (double)n); /* few errors are sent in a second */
        bool fits = n + strlen("{\"text\":\"\"}") <= 65480;
        check(count_packets(fits ? "/stats" : "/error") == 1, "no answer to %zu bytes", n);
    }
    close_remote(remote);
}

/* ---- two sessions: neither answers the other's answers ----------------------------------------- */

static struct osc_peer address_of(const struct osc *there)
{
    struct osc_peer peer = {.size = sizeof(struct sockaddr_in)};
    struct sockaddr_in *address = (struct sockaddr_in *)&peer.address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    osc_set_port(&peer, osc_port(there));
    return peer;
}

static void no_answer_is_answered(const char *backend)
{
    struct remote *remote = open_remote(many_stats, "none");
    struct osc_peer session = address_of(osc);
    struct osc *other = osc_open("0", why, sizeof why);
    check(other, "%s", why);
    osc_send_to(other, &session, "/error", "ss", "/mask", "hall.wav: cannot be read");
    osc_send_to(other, &session, "/error", "");
    osc_send_to(other, &session, "/mask", "si", "hall.wav", 1);
    osc_send_to(other, &session, "/ab/state", "iff", 1, 0.0, -3.0);
    osc_send_to(other, &session, "/late", "i", 3);
    osc_send_to(other, &session, "/load", "f", 3.5);
    osc_send_to(other, &session, "/peaks", "ff", -3.0, -6.0);
    osc_send_to(other, &session, "/stats", "s", "{}");
    osc_send_to(other, &session, "/unsubscribe", "");
    osc_send_to(other, &session, "/source/1/relative", "fff", 0.0, 0.0, 1.0);
    remote_tend(remote, 1000);
    osc_receive(other, take, NULL);
    check(seen.messages == 0 && target.request == 0, "%d answers, %d masks", seen.messages, (int)target.request);
    osc_close(other);
    close_remote(remote);
}

/* One session subscribes to the other by a forged packet. The other one ends the subscription. */
static void a_forged_subscription_ends(const char *backend)
{
    struct remote *remote = open_remote(NULL, NULL), *other_remote;
    struct osc_peer session = address_of(osc);
    struct osc *other = osc_open("0", why, sizeof why);
    check(other && (other_remote = remote_open(other, &target, NULL, NULL)), "%s", why);
    osc_send_to(other, &session, "/subscribe", "");
    for (int i = 0; i < 4; i++) remote_tend(remote, 1000), remote_tend(other_remote, 1000);
    session_set(target.session, HC_BYPASS, 1);
    remote_tend(remote, 1001);
    osc_receive(other, take, NULL);
    osc_receive(osc, take, NULL);
    check(seen.messages == 0, "%d messages between two sessions", seen.messages);
    remote_close(other_remote);
    osc_close(other);
    close_remote(remote);
}

static void a_session_does_not_subscribe_to_itself(const char *backend)
{
    static char packet[20] = "/subscribe\0\0,i";
    struct remote *remote = open_remote(NULL, NULL);
    struct osc_peer session = address_of(osc);
    put_size(packet, 16, (size_t)osc_port(osc));
    send_packet(packet, 20);
    remote_tend(remote, 1000);
    check(count_packets("/error") == 1, "its own port can subscribe");
    osc_send_to(osc, &session, "/subscribe", ""); /* as a forged packet */
    osc_receive(osc, take, NULL);
    check(seen.messages == 0, "a packet of its own is obeyed");
    close_remote(remote);
}

/* Also on a socket that listens on every address. */
static void every_address_of_this_machine_is_its_own(const char *backend)
{
    open_osc();
    close_osc();
    osc = osc_open("0.0.0.0:0", why, sizeof why);
    check(osc, "%s", why);
    struct osc_peer peer = address_of(osc);
    struct sockaddr_in *address = (struct sockaddr_in *)&peer.address;
    check(osc_is_own(osc, &peer), "127.0.0.1 is not its own");
    address->sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1, of no machine */
    check(!osc_is_own(osc, &peer), "192.0.2.1 is its own");
    peer = address_of(osc);
    osc_set_port(&peer, osc_port(osc) == 9 ? 10 : 9);
    check(!osc_is_own(osc, &peer), "another port is its own");
    osc_close(osc);
    osc = NULL;
}

/* 5416 wrong messages in a packet, five packets in a second. */
static void a_host_gets_few_errors(const char *backend)
{
    static char packet[MAX_BYTES];
    struct remote *remote = open_remote(NULL, NULL);
    size_t n = put_many(packet, "/no\0,\0\0\0");
    for (int second = 0; second < 2; second++) {
        int errors = 0;
        for (int i = 0; i < 5; i++) {
            send_packet(packet, n);
            remote_tend(remote, 1000 + second + 0.1 * i);
            errors += count_packets("/error");
        }
        check(errors == 50, "%d errors in a second", errors);
    }
    close_remote(remote);
}

static void subscribers_get_errors(const char *backend)
{
    static const char subscribe[] = "/subscribe\0\0,\0\0";
    struct remote *remote = open_remote(NULL, NULL);
    struct osc_peer session = address_of(osc);
    struct osc *other = osc_open("0", why, sizeof why);
    check(other, "%s", why);
    send_packet(subscribe, sizeof subscribe);
    remote_tend(remote, 1000);
    count_packets("");
    osc_send_to(other, &session, "/no", "");
    remote_tend(remote, 1000);
    osc_receive(other, take, NULL);
    check(count_packets("/error") == 1 && seen.messages == 1, "an error of another peer's message");
    send_packet("/no\0,\0\0\0", 8);
    remote_tend(remote, 1000);
    check(count_packets("/error") == 1, "an error of its own message");
    session_request_mask(target.session, "no.wav"); /* as a key does */
    double end = now_s() + 20;
    int n = 0;
    while (n == 0 && now_s() < end) {
        remote_tend(remote, 1000);
        n = count_packets("/error");
    }
    check(n == 1, "%d errors of a mask that a key asked for", n);
    osc_close(other);
    close_remote(remote);
}

/* The control thread has other things to do: signals, keys, a server that dies. */
static void one_call_reads_few_messages(const char *backend)
{
    enum { PACKETS = 20, EACH = 60 };
    static char packet[MAX_BYTES];
    open_osc();
    size_t n = put_bundle(packet, 0);
    for (int i = 0; i < EACH; i++) {
        n = put_size(packet, n, 8);
        memcpy(packet + n, "/ok\0,\0\0\0", 8);
        n += 8;
    }
    for (int i = 0; i < PACKETS; i++) send_packet(packet, n);
    for (int had = 0; had < PACKETS * EACH; had = seen.messages) {
        osc_receive(osc, take, NULL);
        check(seen.messages > had, "%d of %d messages arrived", had, PACKETS * EACH);
        check(seen.messages <= had + 2 * EACH, "%d messages in one call", seen.messages - had);
    }
    close_osc();
}

/* Valid packets with bytes changed, and cut: the sanitizers see what is read. */
static void any_bytes_are_read(const char *backend)
{
    static const char seeds[][60] = {"/mask\0\0\0,s\0\0hall.wav\0\0\0", "/gain\0\0\0,f\0\0\xc0\xc0\0",
                                     "/a\0\0,sibhdtTFNIrmcS\0\0one\0\0\0\0\1\0\0\0\2ab\0\0",
                                     "#bundle\0\0\0\0\0\0\0\0\1\0\0\0\x10/gain\0\0\0,i\0\0\0\0\0\1\0\0\0\10/ok\0,\0\0"};
    struct random r = random_seeded(31);
    open_osc();
    for (int round = 0; round < ROUNDS; round++) {
        char packet[60];
        memcpy(packet, seeds[random_int(&r, 0, 3)], sizeof packet);
        for (int i = random_int(&r, 0, 4); i > 0; i--)
            packet[random_int(&r, 0, (int)sizeof packet - 1)] =
                random_int(&r, 0, 1) ? "\0\1\xff,s/#bTi"[random_int(&r, 0, 9)] : (char)random_u32(&r);
        send_packet(packet, (size_t)random_int(&r, 1, (int)sizeof packet));
        osc_receive(osc, take, NULL);
    }
    check(seen.messages > ROUNDS / 100, "%d messages of %d packets", seen.messages, ROUNDS);
    close_osc();
}

int main(void)
{
    static const struct test tests[] = {
        TEST(packets_that_break_the_rules_are_dropped, false),
        TEST(bundles_are_read_to_a_limited_depth, false),
        TEST(one_call_reads_few_messages, false),
        TEST(any_bytes_are_read, false),
        TEST(a_packet_has_few_answers, false),
        TEST(a_closed_port_is_told, false),
        TEST(messages_that_the_first_thread_leaves_go_on, false),
        TEST(messages_that_nobody_receives_keep_nobody_waiting, false),
        TEST(a_subscription_ends_after_a_minute, false),
        TEST(statistics_of_any_length_are_answered, false),
        TEST(no_answer_is_answered, false),
        TEST(a_forged_subscription_ends, false),
        TEST(a_session_does_not_subscribe_to_itself, false),
        TEST(every_address_of_this_machine_is_its_own, false),
        TEST(a_host_gets_few_errors, false),
        TEST(subscribers_get_errors, false),
    };
    return check_main("osc", tests, sizeof tests / sizeof *tests);
}
