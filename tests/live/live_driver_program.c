/* live_driver_program - `haloconv jack`, `pipewire` and `live` in a thread of the test, with the test as the server or
 * the sound card (fake_jack.h, fake_pipewire.h, fake_portaudio.h). OSC messages set masks and knobs, as a user's script does;
 * SIGTERM ends the program.
 */
#include "fake_jack.h"
#include "fake_pipewire.h"
#include "fake_portaudio.h"
#include "host/commands.h"
#include "host/stopwatch.h"
#include "live_driver.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_ARGS = 20, PACKET_BYTES = 65536 };
static const double ANSWER_S = 60;

static struct program {
    int (*command)(int argc, char **argv);
    const struct live_driver *driver;
    bool (*plays)(void); /* are there callbacks? */
    bool is_open;
    pid_t process;
    pthread_t thread;
    atomic_bool ended;
    int status;
    int argc;
    char *argv[MAX_ARGS + 1], text[MAX_ARGS][200];
    int socket;
    struct sockaddr_in address;
} program;

/* ---- OSC --------------------------------------------------------------------------------------- */

static size_t put_text(char *packet, size_t at, const char *text)
{
    size_t bytes = strlen(text) + 1;
    memset(packet + at, 0, (bytes + 3) / 4 * 4);
    memcpy(packet + at, text, bytes);
    return at + (bytes + 3) / 4 * 4;
}

static void send_text(const char *path, const char *text)
{
    char packet[4200];
    size_t n = put_text(packet, 0, path);
    n = put_text(packet, n, text ? ",s" : ",");
    if (text) n = put_text(packet, n, text);
    check(send(program.socket, packet, n, 0) == (ssize_t)n, "%s cannot be sent", path);
}

static void send_int(const char *path, int value)
{
    char packet[64];
    size_t n = put_text(packet, 0, path);
    uint32_t bytes = htonl((uint32_t)value);
    n = put_text(packet, n, ",i");
    memcpy(packet + n, &bytes, 4);
    check(send(program.socket, packet, n + 4, 0) == (ssize_t)n + 4, "%s cannot be sent", path);
}

/* The JSON of /stats, after the program has obeyed all earlier messages. NULL: no answer in so many ms. */
static const char *ask_stats(int ms)
{
    static char packet[PACKET_BYTES + 1];
    struct pollfd ready = {.fd = program.socket, .events = POLLIN};
    while (recv(program.socket, packet, PACKET_BYTES, MSG_DONTWAIT) > 0) continue; /* an answer that came late */
    send_text("/stats", NULL);
    while (poll(&ready, 1, ms) == 1) {
        ssize_t n = recv(program.socket, packet, PACKET_BYTES, 0);
        if (n <= 12) return NULL; /* nobody listens yet */
        packet[n] = '\0';
        if (strcmp(packet, "/stats") == 0) return packet + 12; /* "/stats", ",s"; others are answers to /mask */
    }
    return NULL;
}

static const char *stats(void)
{
    const char *json = ask_stats((int)(1e3 * ANSWER_S));
    check(json, "the program does not answer /stats");
    return json;
}

static void read_text(const char *json, const char *name, char *value, size_t cap)
{
    char key[40];
    snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = strstr(json, key);
    check(at, "no %s in %s", name, json);
    at += strlen(key);
    snprintf(value, cap, "%.*s", (int)strcspn(at, "\""), at);
}

static int read_int(const char *json, const char *name)
{
    char key[40];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(json, key);
    check(at, "no %s in %s", name, json);
    return atoi(at + strlen(key));
}

static struct live_counts counts(void)
{
    char state[32];
    const char *json = stats();
    struct live_counts counts = {.masks = read_int(json, "swaps"),
                                 .rebuilds = read_int(json, "engines") - 1,
                                 .late = read_int(json, "late") + read_int(json, "lost")};
    read_text(json, "state", state, sizeof state);
    read_text(json, "backend", counts.backend, sizeof counts.backend);
    counts.on_standby = strcmp(state, "standby") == 0;
    return counts;
}

static void ask_mask(const char *path)
{
    send_text("/mask", path);
    stats();
}

static void set_bypass(bool on)
{
    send_int("/bypass", on);
    stats();
}

/* ---- the program ------------------------------------------------------------------------------- */

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
    va_list args;
    check(program.argc < MAX_ARGS, "more arguments than there is room for");
    va_start(args, format);
    vsnprintf(program.text[program.argc], sizeof program.text[0], format, args);
    va_end(args);
    program.argv[program.argc] = program.text[program.argc];
    program.argv[++program.argc] = NULL;
}

/* If the device hangs, the program ends its process, which is the test's. */
_Noreturn void _exit(int status)
{
    bool is_program = program.is_open && getpid() == program.process && pthread_equal(pthread_self(), program.thread);
    if (is_program) {
        printf("FAIL -    haloconv %s left the process with status %d\n", program.driver->name, status);
        fflush(stdout);
    }
    for (;;) syscall(SYS_exit_group, is_program ? 1 : status);
}

static void *run(void *arg)
{
    program.status = program.command(program.argc, program.argv);
    atomic_store(&program.ended, true);
    return NULL;
}

/* A UDP port that is free now. */
static void choose_port(void)
{
    socklen_t size = sizeof program.address;
    int probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    program.address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(probe >= 0 && bind(probe, (struct sockaddr *)&program.address, sizeof program.address) == 0 &&
              getsockname(probe, (struct sockaddr *)&program.address, &size) == 0,
          "no port");
    close(probe);
    program.socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    check(program.socket >= 0 &&
              connect(program.socket, (struct sockaddr *)&program.address, sizeof program.address) == 0,
          "no socket");
}

/* The program fades out before it ends. */
static void close_program(void)
{
    static float zeros[256], discarded[LIVE_CHANNELS][256];
    const float *in[] = {zeros, zeros};
    float *out[] = {discarded[0], discarded[1]};
    if (!program.is_open) return;
    pthread_kill(program.thread, SIGTERM); /* blocked in all threads; the program reads it */
    while (!atomic_load(&program.ended)) {
        program.driver->process(in, out, program.driver->block);
        pause_us(300);
    }
    pthread_join(program.thread, NULL);
    close(program.socket);
    program.is_open = false;
}

static void open_program(const char *name, const struct live_setup *setup)
{
    check(!getenv("NSM_URL"), "NSM_URL is set: a session manager would have its say");
    choose_port();
    program.argc = 0;
    add("%s", name);
    add("-q");
    add("--osc");
    add("%d", ntohs(program.address.sin_port));
    add("%s", setup->mask);
    if (!setup->is_default) {
        add("--fade=%g", LIVE_FADE_MS);
        add("--standby=100");
        if (setup->wait_us) add("--wait-us=%d", setup->wait_us);
    }
    for (int i = 0; i < 4 && setup->more[i]; i++) add("%s", setup->more[i]);
    if (setup->fault) {
        add("--backend=cuda");
        setenv("HC_FAULT", setup->fault, 1);
    }
    atomic_store(&program.ended, false);
    check(pthread_create(&program.thread, NULL, run, NULL) == 0, "no thread");
    program.process = getpid();
    program.is_open = true;
    double give_up = stopwatch_now() + ANSWER_S;
    while (!program.plays() || !ask_stats(100)) {
        check(!atomic_load(&program.ended), "haloconv %s ended with status %d", name, program.status);
        check(stopwatch_now() < give_up, "haloconv %s does not begin", name);
        pause_us(1000);
    }
    unsetenv("HC_FAULT");
}

/* ---- JACK -------------------------------------------------------------------------------------- */

#if defined(HC_WITH_JACK) && defined(HC_WITH_LO)
#define JACK_MISSING NULL
#else
#define JACK_MISSING "this build has no JACK, or no OSC"
#endif

static void open_jack(const struct live_setup *setup)
{
    fake_jack_start(LIVE_RATE, live_jack.block);
    program.command = jack_command;
    program.driver = &live_jack;
    program.plays = fake_jack_has_client;
    open_program("jack", setup);
}

const struct live_driver live_jack = {.name = "jack",
                                      .missing = JACK_MISSING,
                                      .block = 64,
                                      .other_block = 256,
                                      .has_standby = true,
                                      .fades_in = true,
                                      .lacks = {[LIVE_RESET] = "JACK has no reset"},
                                      .open = open_jack,
                                      .close = close_program,
                                      .process = fake_jack_cycle,
                                      .ask_mask = ask_mask,
                                      .ask_block = fake_jack_set_block,
                                      .ask_rate = fake_jack_set_rate,
                                      .set_freewheel = fake_jack_set_freewheel,
                                      .set_bypass = set_bypass,
                                      .counts = counts};

/* ---- PipeWire ---------------------------------------------------------------------------------- */

#if defined(HC_WITH_PIPEWIRE) && defined(HC_WITH_LO)
#define PIPEWIRE_MISSING NULL
#else
#define PIPEWIRE_MISSING "this build has no PipeWire, or no OSC"
#endif

/* The program finds out the length of a callback, from PortAudio and PipeWire. */
static void ask_block(int block) {}

static void open_pipewire(const struct live_setup *setup)
{
    fake_pipewire_start(LIVE_RATE, live_pipewire.block);
    program.command = pipewire_command;
    program.driver = &live_pipewire;
    program.plays = fake_pipewire_has_node;
    open_program("pipewire", setup);
}

const struct live_driver live_pipewire = {
    .name = "pipewire",
    .missing = PIPEWIRE_MISSING,
    .block = 128,
    .other_block = 256,
    .has_standby = true,
    .fades_in = true,
    .lacks = {[LIVE_BLOCK_AT_ONCE] = "PipeWire does not announce the length of a cycle",
              [LIVE_RESET] = "PipeWire has no reset"},
    .open = open_pipewire,
    .close = close_program,
    .process = fake_pipewire_cycle,
    .ask_mask = ask_mask,
    .ask_block = ask_block,
    .ask_rate = fake_pipewire_set_rate,
    .set_freewheel = fake_pipewire_set_freewheel,
    .set_bypass = set_bypass,
    .counts = counts};

/* ---- PortAudio --------------------------------------------------------------------------------- */

#if defined(HC_WITH_PORTAUDIO) && defined(HC_WITH_LO)
#define PORTAUDIO_MISSING NULL
#else
#define PORTAUDIO_MISSING "this build has no PortAudio, or no OSC"
#endif

static void open_portaudio(const struct live_setup *setup)
{
    fake_portaudio_start(LIVE_RATE);
    program.command = live_command;
    program.driver = &live_portaudio;
    program.plays = fake_portaudio_has_stream;
    open_program("live", setup);
}

const struct live_driver live_portaudio = {
    .name = "portaudio",
    .missing = PORTAUDIO_MISSING,
    .block = 256, /* the program's guess */
    .other_block = 64,
    .has_standby = true,
    .fades_in = true,
    .lacks = {[LIVE_BLOCK_AT_ONCE] = "a PortAudio stream does not say how long a callback will be",
              [LIVE_RATE_CHANGE] = "a PortAudio stream has one rate",
              [LIVE_FREEWHEEL] = "PortAudio has no freewheeling",
              [LIVE_RESET] = "PortAudio has no reset"},
    .open = open_portaudio,
    .close = close_program,
    .process = fake_portaudio_call,
    .ask_mask = ask_mask,
    .ask_block = ask_block,
    .set_bypass = set_bypass,
    .counts = counts};
