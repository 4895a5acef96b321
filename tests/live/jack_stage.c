/* jack_stage - plays a sound into a JACK client and records what comes out, to the frame.
 *
 *   jack_stage SERVER PLAY.f32 N_IN FIRST LAST N_OUT RECORD.f32 N_FRAMES [silence FRAMES] [freewheel]
 *              [resize FRAME PERIOD]...
 *
 *   jack_stage idle SERVER          a client that does nothing, until SIGINT; prints the number of xruns reported to it
 *   jack_stage copy SERVER          the same, and copies the sound card's first two inputs to its first two outputs
 *
 *   jack_stage midi SERVER NAME HEX...   a client NAME with a MIDI output: waits until it is connected, then sends the
 *                                        messages, such as c001, one a cycle
 *
 *   jack_stage moves SERVER FIRST LAST PORT N HEX HEX   plays 1 into FIRST, and sends the two OSC packets in turn, N
 *                                        together, to a UDP port of this machine, each at a random moment; waits until
 *                                        LAST changes. Prints a line for each: cycles from the one in which the packet
 *                                        was sent to the one with the change (1: the next), the first sample of that
 *                                        cycle that changed, and the frames from the packet to the next cycle
 *
 * PLAY and RECORD are raw float frames of N_IN and N_OUT channels. PLAY goes to the ports FIRST:in-1..., and RECORD
 * comes from LAST:out-1...; with a colon, FIRST and LAST are names of ports up to the number; with a comma, lists of
 * whole names. One client plays and another records, so that the graph has no loop: a sound is recorded in the cycle in
 * which it is played, and frame 0 of RECORD is the output for frame 0 of PLAY. Silence is played before: 50 ms, in which
 * ramps of haloconv end (20 ms), or FRAMES more. Prints `begun` with the first recorded frame. SIGINT ends the recording
 * early, a few cycles later.
 */
#include <arpa/inet.h>
#include <jack/jack.h>
#include <jack/midiport.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, MAX_RESIZES = 16 };
enum { GRAPH_CYCLES = 10, POLL_MS = 2 }; /* cycles in which a graph with new connections gets its order */

struct side {
    jack_client_t *client;
    jack_port_t *ports[MOST];
    int n_channels;
    float *frames; /* [n_frames][n_channels] */
    long n_frames;
    atomic_long done; /* frames since the common start; -1: not begun */
};

static struct side player, recorder;
static atomic_long frames_passed, cycles_passed; /* through the player, from its start */
static atomic_bool starts;                       /* with the player's next cycle */
static atomic_bool is_down;
static volatile sig_atomic_t is_interrupted;

/* The player begins when it is told. The recorder runs later in the same cycle, and records the result. */
static bool has_begun(struct side *side)
{
    if (atomic_load(&side->done) >= 0) return true;
    bool begins = side == &recorder ? atomic_load(&player.done) > 0 : atomic_load(&starts);
    if (begins) atomic_store(&side->done, 0);
    return begins;
}

static int on_play(jack_nframes_t n, void *data)
{
    (void)data;
    bool begun = has_begun(&player);
    long at = atomic_load(&player.done);
    for (int ch = 0; ch < player.n_channels; ch++) {
        float *out = jack_port_get_buffer(player.ports[ch], n);
        for (long i = 0; i < (long)n; i++)
            out[i] = begun && at + i < player.n_frames ? player.frames[(at + i) * player.n_channels + ch] : 0;
    }
    if (begun) atomic_store(&player.done, at + (long)n);
    atomic_fetch_add(&frames_passed, (long)n);
    atomic_fetch_add(&cycles_passed, 1);
    return 0;
}

static int on_record(jack_nframes_t n, void *data)
{
    (void)data;
    if (!has_begun(&recorder)) return 0;
    long at = atomic_load(&recorder.done);
    for (int ch = 0; ch < recorder.n_channels; ch++) {
        const float *in = jack_port_get_buffer(recorder.ports[ch], n);
        for (long i = 0; i < (long)n && at + i < recorder.n_frames; i++)
            recorder.frames[(at + i) * recorder.n_channels + ch] = in[i];
    }
    atomic_store(&recorder.done, at + (long)n);
    return 0;
}

static void on_shutdown(void *data)
{
    (void)data;
    atomic_store(&is_down, true);
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "jack_stage: %s: %s\n", what, why);
    exit(1);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void open_side(struct side *side, const char *server, const char *name, JackProcessCallback process,
                      unsigned long flags)
{
    jack_status_t status;
    side->client = jack_client_open(name, JackNoStartServer | JackServerName | JackUseExactName, &status, server);
    if (!side->client) die(server, "the client cannot be opened");
    atomic_init(&side->done, -1);
    for (int ch = 0; ch < side->n_channels; ch++) {
        char port[32];
        snprintf(port, sizeof port, "%d", ch + 1);
        side->ports[ch] = jack_port_register(side->client, port, JACK_DEFAULT_AUDIO_TYPE, flags, 0);
        if (!side->ports[ch]) die(port, "cannot be registered");
    }
    jack_set_process_callback(side->client, process, NULL);
    jack_on_shutdown(side->client, on_shutdown, NULL);
    if (jack_activate(side->client) != 0) die(name, "cannot be activated");
}

/* Waits until n frames, and GRAPH_CYCLES, have passed through the graph, however slow the machine. */
static void pass(const char *server, long n)
{
    long end = atomic_load(&frames_passed) + n, last = atomic_load(&cycles_passed) + GRAPH_CYCLES, waited_ms = 0;
    for (; atomic_load(&frames_passed) < end || atomic_load(&cycles_passed) < last; waited_ms += POLL_MS) {
        if (atomic_load(&is_down) || waited_ms > 60000) die(server, "plays nothing");
        pause_ms(POLL_MS);
    }
}

/* The other client may still be starting. */
static void wire(jack_client_t *client, const char *from, const char *to)
{
    for (int i = 0; i < 12000; i++) {
        if (jack_port_by_name(client, from) && jack_port_by_name(client, to) && jack_connect(client, from, to) == 0)
            return;
        pause_ms(5);
    }
    die(from, "cannot be connected");
}

/* The port of a channel: `names` is FIRST or LAST. */
static void find_name(const char *names, const char *side, int ch, char *name, size_t cap)
{
    if (!strchr(names, ',')) {
        snprintf(name, cap, "%s%s%d", names, strchr(names, ':') ? "" : side, ch + 1);
        return;
    }
    for (; ch > 0 && strchr(names, ','); ch--) names = strchr(names, ',') + 1;
    snprintf(name, cap, "%.*s", (int)strcspn(names, ","), names);
}

static void wire_all(const char *first, const char *last)
{
    char name[400];
    for (int ch = 0; ch < player.n_channels; ch++) {
        find_name(first, ":in-", ch, name, sizeof name);
        wire(player.client, jack_port_name(player.ports[ch]), name);
    }
    for (int ch = 0; ch < recorder.n_channels; ch++) {
        find_name(last, ":out-", ch, name, sizeof name);
        wire(recorder.client, name, jack_port_name(recorder.ports[ch]));
    }
}

static void read_frames(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) die(path, "cannot be read");
    fseek(file, 0, SEEK_END);
    player.n_frames = ftell(file) / (long)sizeof(float) / player.n_channels;
    rewind(file);
    player.frames = malloc((size_t)player.n_frames * (size_t)player.n_channels * sizeof(float) + 1);
    size_t want = (size_t)player.n_frames * (size_t)player.n_channels;
    if (!player.frames || fread(player.frames, sizeof(float), want, file) != want) die(path, "cannot be read");
    fclose(file);
}

/* ---- clients to compare with --------------------------------------------------------------------- */

enum { COPIED = 2 };

static atomic_ulong n_xruns, n_cycles;
static jack_port_t *copy_from[COPIED], *copy_to[COPIED]; /* NULL: not copying */

static int on_cycle(jack_nframes_t n, void *data)
{
    (void)data;
    for (int ch = 0; ch < COPIED && copy_to[ch]; ch++)
        memcpy(jack_port_get_buffer(copy_to[ch], n), jack_port_get_buffer(copy_from[ch], n), n * sizeof(float));
    atomic_fetch_add(&n_cycles, 1);
    return 0;
}

static int on_xrun(void *data)
{
    (void)data;
    atomic_fetch_add(&n_xruns, 1);
    return 0;
}

/* JACK calls only clients with a port. */
static bool make_ports(jack_client_t *client, bool copies)
{
    char name[16];
    if (!copies) return jack_port_register(client, "in", JACK_DEFAULT_AUDIO_TYPE, JackPortIsInput, 0) != NULL;
    for (int ch = 0; ch < COPIED; ch++) {
        snprintf(name, sizeof name, "in-%d", ch + 1);
        copy_from[ch] = jack_port_register(client, name, JACK_DEFAULT_AUDIO_TYPE, JackPortIsInput, 0);
        snprintf(name, sizeof name, "out-%d", ch + 1);
        copy_to[ch] = jack_port_register(client, name, JACK_DEFAULT_AUDIO_TYPE, JackPortIsOutput, 0);
        if (!copy_from[ch] || !copy_to[ch]) return false;
    }
    return true;
}

static void wire_card(jack_client_t *client)
{
    char port[32];
    for (int ch = 0; ch < COPIED; ch++) {
        snprintf(port, sizeof port, "system:capture_%d", ch + 1);
        wire(client, port, jack_port_name(copy_from[ch]));
        snprintf(port, sizeof port, "system:playback_%d", ch + 1);
        wire(client, jack_port_name(copy_to[ch]), port);
    }
}

static int stand_by(const char *what, const char *server)
{
    bool copies = strcmp(what, "copy") == 0;
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    jack_client_t *client = jack_client_open(what, JackNoStartServer | JackServerName, NULL, server);
    if (!client) die(server, "no server answers");
    jack_set_process_callback(client, on_cycle, NULL);
    jack_set_xrun_callback(client, on_xrun, NULL);
    if (!make_ports(client, copies) || jack_activate(client) != 0) die(what, "cannot be activated");
    if (copies) wire_card(client);
    sigwait(&set, &number);
    jack_client_close(client);
    printf("xruns %lu in %lu cycles\n", atomic_load(&n_xruns), atomic_load(&n_cycles));
    return 0;
}

/* ---- MIDI --------------------------------------------------------------------------------------- */

enum { CALM_CYCLES = 20 }; /* before the first message and after the last: the graph gets its new order meanwhile */

static struct {
    jack_port_t *port;
    char **hex;
    int n;
    atomic_bool starts;
    atomic_int cycles; /* since it starts */
} sender;

static int on_send(jack_nframes_t n, void *data)
{
    (void)data;
    void *buffer = jack_port_get_buffer(sender.port, n);
    jack_midi_clear_buffer(buffer);
    if (!atomic_load(&sender.starts)) return 0;
    int at = atomic_fetch_add(&sender.cycles, 1) - CALM_CYCLES;
    if (at < 0 || at >= sender.n) return 0;
    const char *hex = sender.hex[at];
    size_t bytes = strlen(hex) / 2;
    jack_midi_data_t *message = jack_midi_event_reserve(buffer, 0, bytes);
    unsigned byte;
    for (size_t i = 0; message && i < bytes && sscanf(hex + 2 * i, "%2x", &byte) == 1; i++)
        message[i] = (jack_midi_data_t)byte;
    return 0;
}

static int send_midi(const char *server, const char *name, char **hex, int n)
{
    sender.hex = hex;
    sender.n = n;
    jack_client_t *client = jack_client_open(name, JackNoStartServer | JackServerName, NULL, server);
    if (!client) die(server, "no server answers");
    sender.port = jack_port_register(client, "out", JACK_DEFAULT_MIDI_TYPE, JackPortIsOutput, 0);
    jack_set_process_callback(client, on_send, NULL);
    jack_on_shutdown(client, on_shutdown, NULL);
    if (!sender.port || jack_activate(client) != 0) die(name, "cannot be activated");
    for (long waited_ms = 0; atomic_load(&sender.cycles) < n + 2 * CALM_CYCLES; waited_ms += POLL_MS) {
        if (jack_port_connected(sender.port)) atomic_store(&sender.starts, true);
        if (atomic_load(&is_down) || waited_ms > 60000) die(name, "sends nothing");
        pause_ms(POLL_MS);
    }
    jack_client_close(client);
    return 0;
}

/* ---- moves -------------------------------------------------------------------------------------- */

enum { CALM_BLOCKS = 5 }; /* of the same output before a packet is sent */
static const float rounding = 1e-6f; /* of transforms: the output of a constant input is not quite constant */

static struct {
    float last;          /* sample of the output; callback only */
    atomic_long cycle;   /* of the player, which runs first in every cycle */
    atomic_llong begin;  /* of that cycle, in ns */
    atomic_int calm;     /* cycles without a change */
    atomic_long changed; /* cycle of the first change while `waits`; 0: none yet */
    atomic_long sample;  /* the first one that changed */
    atomic_bool waits;
} moves;

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int on_one(jack_nframes_t n, void *data)
{
    (void)data;
    float *out = jack_port_get_buffer(player.ports[0], n);
    atomic_store(&moves.begin, now_ns());
    atomic_fetch_add(&moves.cycle, 1);
    for (jack_nframes_t i = 0; i < n; i++) out[i] = 1;
    atomic_fetch_add(&frames_passed, (long)n);
    atomic_fetch_add(&cycles_passed, 1);
    return 0;
}

static int on_change(jack_nframes_t n, void *data)
{
    (void)data;
    const float *in = jack_port_get_buffer(recorder.ports[0], n);
    jack_nframes_t i = 0;
    while (i < n && fabsf(in[i] - moves.last) < rounding) i++;
    if (i == n)
        atomic_fetch_add(&moves.calm, 1);
    else
        atomic_store(&moves.calm, 0);
    moves.last = in[n - 1];
    if (i == n || !atomic_exchange(&moves.waits, false)) return 0;
    atomic_store(&moves.sample, (long)i);
    atomic_store(&moves.changed, atomic_load(&moves.cycle));
    return 0;
}

static size_t read_hex(const char *hex, unsigned char *bytes, size_t cap)
{
    size_t n = 0;
    unsigned byte;
    for (; n < cap && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++) bytes[n] = (unsigned char)byte;
    return n;
}

static int measure_moves(char **argv)
{
    unsigned char packet[2][256];
    size_t bytes[2] = {read_hex(argv[7], packet[0], 256), read_hex(argv[8], packet[1], 256)};
    struct sockaddr_in there = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[5])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int n = atoi(argv[6]), fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    player.n_channels = recorder.n_channels = 1;
    open_side(&player, argv[2], "moves-play", on_one, JackPortIsOutput);
    open_side(&recorder, argv[2], "moves-record", on_change, JackPortIsInput);
    wire_all(argv[3], argv[4]);
    pass(argv[2], jack_get_sample_rate(player.client) / 20);
    double block = jack_get_buffer_size(player.client), rate = jack_get_sample_rate(player.client);
    srandom(1);
    for (int i = 0; i < n; i++) {
        long waited_ms = 0;
        for (; atomic_load(&moves.calm) < CALM_BLOCKS; waited_ms++) {
            if (atomic_load(&is_down) || waited_ms > 10000) die(argv[2], "does not calm down");
            pause_ms(1);
        }
        nanosleep(&(struct timespec){.tv_nsec = random() % 10000000}, NULL);
        atomic_store(&moves.changed, 0);
        atomic_store(&moves.calm, 0);
        atomic_store(&moves.waits, true);
        long cycle = atomic_load(&moves.cycle);
        double since = 1e-9 * (double)(now_ns() - atomic_load(&moves.begin)) * rate;
        if (sendto(fd, packet[i % 2], bytes[i % 2], 0, (struct sockaddr *)&there, sizeof there) < 0)
            die("packet", "lost");
        for (waited_ms = 0; atomic_load(&moves.changed) == 0; waited_ms++) {
            if (atomic_load(&is_down) || waited_ms > 10000) die(argv[4], "does not change");
            pause_ms(1);
        }
        printf("%ld %ld %.0f\n", atomic_load(&moves.changed) - cycle, atomic_load(&moves.sample),
               since < block ? block - since : 0);
    }
    close(fd);
    jack_client_close(player.client);
    jack_client_close(recorder.client);
    return 0;
}

static void on_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

int main(int argc, char **argv)
{
    if (argc == 9 && strcmp(argv[1], "moves") == 0) return measure_moves(argv);
    if (argc > 4 && strcmp(argv[1], "midi") == 0) return send_midi(argv[2], argv[3], argv + 4, argc - 4);
    if (argc == 3 && (strcmp(argv[1], "idle") == 0 || strcmp(argv[1], "copy") == 0)) return stand_by(argv[1], argv[2]);
    if (argc < 9)
        die("usage", "SERVER PLAY N_IN FIRST LAST N_OUT RECORD N_FRAMES [silence FRAMES] [freewheel] "
                     "[resize FRAME PERIOD]...");
    signal(SIGINT, on_interrupt);
    player.n_channels = atoi(argv[3]);
    recorder.n_channels = atoi(argv[6]);
    recorder.n_frames = atol(argv[8]);
    long resize_at[MAX_RESIZES] = {0}, resize_to[MAX_RESIZES] = {0}, silence = 0;
    int n_resizes = 0;
    bool freewheel = false;
    for (int i = 9; i < argc; i++) {
        if (strcmp(argv[i], "freewheel") == 0) freewheel = true;
        if (strcmp(argv[i], "silence") == 0 && i + 1 < argc) silence = atol(argv[i + 1]);
        if (strcmp(argv[i], "resize") == 0 && i + 2 < argc && n_resizes < MAX_RESIZES) {
            resize_at[n_resizes] = atol(argv[i + 1]);
            resize_to[n_resizes++] = atol(argv[i + 2]);
        }
    }
    read_frames(argv[2]);
    size_t n = (size_t)recorder.n_frames * (size_t)recorder.n_channels;
    recorder.frames = calloc(n, sizeof(float));
    if (!recorder.frames) die(argv[7], "no memory");

    /* libjack's sockets bear the client's name alone: two of one name, opened at once on two servers, take each
     * other's. */
    char name[32];
    snprintf(name, sizeof name, "play-%d", (int)getpid());
    open_side(&player, argv[1], name, on_play, JackPortIsOutput);
    snprintf(name, sizeof name, "record-%d", (int)getpid());
    open_side(&recorder, argv[1], name, on_record, JackPortIsInput);
    wire_all(argv[4], argv[5]);
    pass(argv[1], jack_get_sample_rate(player.client) / 20 + silence);
    if (freewheel && jack_set_freewheel(recorder.client, 1) != 0) die("freewheel", "refused");
    if (freewheel) pass(argv[1], 0); /* every client knows */
    atomic_store(&starts, true);
    int resized = 0;
    double waited = 0;
    bool said = false;
    for (long last = -1, done; (done = atomic_load(&recorder.done)) < recorder.n_frames; last = done) {
        if (atomic_load(&is_down)) die(argv[1], "the server went away");
        waited = done == last ? waited + 1e-3 * POLL_MS : 0;
        if (done > 0 && !said) said = puts("begun") >= 0 && fflush(stdout) == 0;
        if (waited > 30) die(argv[1], "plays nothing for 30 s");
        if (resized < n_resizes && done >= resize_at[resized])
            jack_set_buffer_size(recorder.client, (jack_nframes_t)resize_to[resized++]);
        if (is_interrupted && done > 0) {
            pass(argv[1], 0);
            break;
        }
        pause_ms(POLL_MS);
    }
    if (freewheel) jack_set_freewheel(recorder.client, 0);
    jack_client_close(player.client);
    jack_client_close(recorder.client);
    if (atomic_load(&recorder.done) < recorder.n_frames)
        n = (size_t)atomic_load(&recorder.done) * (size_t)recorder.n_channels;
    FILE *file = fopen(argv[7], "wb");
    if (!file || fwrite(recorder.frames, sizeof(float), n, file) != n || fclose(file) != 0)
        die(argv[7], "cannot be written");
    return 0;
}
