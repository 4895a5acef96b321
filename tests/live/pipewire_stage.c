/* pipewire_stage - plays a sound into nodes of PipeWire and records what comes out, to the frame.
 *
 *   pipewire_stage PLAY.f32 N_IN FIRST LAST N_OUT RECORD.f32 N_FRAMES [silence FRAMES] [latency FRAMES]
 *                  [freewheel] [resize FRAME QUANTUM]...
 *
 * PLAY and RECORD are raw float frames of N_IN and N_OUT channels. PLAY goes to the ports FIRST1, FIRST2, ..., and
 * RECORD comes from LAST1, LAST2, ... (as "hc:in-" and "hc:out-"). One node plays and another records, so that the
 * graph has no loop: a sound is recorded in the cycle in which it is played, and frame 0 of RECORD is the output for
 * frame 0 of PLAY. Prints `begun` when the first frame is recorded. A cycle without the recorder leaves NaN.
 *
 *   silence     so many frames are played before
 *   latency     the first port that plays reports this latency
 *   freewheel   the nodes join the daemon's freewheeling driver, which waits for all nodes a quantum's time
 *   resize      forces another quantum once this frame is recorded
 */
#include "host/live/servers/pipewire_graph.h"

#include <math.h>
#include <pipewire/filter.h>
#include <spa/param/latency-utils.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pipewire/extensions/metadata.h> /* needs pipewire.h before it */

enum { MAX_CHANNELS = 64, MAX_RESIZES = 64, GRAPH_CYCLES = 10, POLL_MS = 2, GIVE_UP_MS = 60000, MIN_GAP = 48 };

struct side {
    struct pw_filter *filter;
    struct spa_hook hook;
    void *ports[MAX_CHANNELS];
    int n_channels;
    float *frames; /* [n_frames][n_channels] */
    long n_frames;
};

static struct side player, recorder;
#define NOT_BEGUN (-(1L << 60))
static long silence; /* frames before the first */
static atomic_long cycles;
static atomic_bool starts;         /* with the player's next cycle */
static atomic_long at = NOT_BEGUN; /* first frame of the player's cycle; NOT_BEGUN: none yet */
static struct spa_io_clock last;   /* of the player's last cycle */
static atomic_long done;           /* frames that are recorded, or missing */

static void die(const char *what, const char *why)
{
    fprintf(stderr, "pipewire_stage: %s: %s\n", what, why);
    exit(1);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Counts the frames of a cycle. Missing cycles count, too. The clock's position jumps with another quantum and with
 * another driver; the time shows then whether the graph was suspended, as PipeWire 1.4 does for a quantum that is forced. */
static long count(const struct spa_io_clock *clock)
{
    long now = atomic_load(&at), passed = 0;
    if (now == NOT_BEGUN && !atomic_load(&starts)) return now;
    bool is_steady = clock->duration == last.duration && clock->id == last.id;
    if (is_steady)
        passed = (long)(clock->position - last.position);
    else if (clock->rate.denom == last.rate.denom)
        passed = lround(1e-9 * (double)(int64_t)(clock->nsec - last.nsec) * clock->rate.denom);
    if (passed < (long)last.duration + (is_steady ? 0 : MIN_GAP)) passed = (long)last.duration;
    now = now == NOT_BEGUN ? -silence : now + passed;
    atomic_store(&at, now);
    return now;
}

static void on_play(void *data, struct spa_io_position *position)
{
    (void)data;
    long n = (long)position->clock.duration, first = count(&position->clock);
    last = position->clock;
    for (int ch = 0; ch < player.n_channels; ch++) {
        float *out = pw_filter_get_dsp_buffer(player.ports[ch], (uint32_t)n);
        for (long i = 0; out && i < n; i++) {
            bool plays = first >= -silence && first + i >= 0 && first + i < player.n_frames;
            out[i] = plays ? player.frames[(first + i) * player.n_channels + ch] : 0;
        }
    }
    atomic_fetch_add(&cycles, 1);
}

/* Runs later in the same cycle. */
static void on_record(void *data, struct spa_io_position *position)
{
    (void)data;
    long n = (long)position->clock.duration, first = atomic_load(&at);
    bool begun = first != NOT_BEGUN;
    for (int ch = 0; ch < recorder.n_channels; ch++) {
        const float *in = pw_filter_get_dsp_buffer(recorder.ports[ch], (uint32_t)n); /* gives it back, too */
        for (long i = first < 0 ? -first : 0; in && begun && i < n && first + i < recorder.n_frames; i++)
            recorder.frames[(first + i) * recorder.n_channels + ch] = in[i];
    }
    if (begun && first + n > 0) atomic_store(&done, first + n);
}

static void report_latency(struct side *side, long frames)
{
    uint8_t bytes[1024];
    struct spa_pod_builder builder;
    spa_pod_builder_init(&builder, bytes, sizeof bytes);
    struct spa_latency_info latency =
        SPA_LATENCY_INFO(SPA_DIRECTION_OUTPUT, .min_rate = (uint32_t)frames, .max_rate = (uint32_t)frames);
    const struct spa_pod *parameter = spa_latency_build(&builder, SPA_PARAM_Latency, &latency);
    pw_filter_update_params(side->filter, side->ports[0], &parameter, 1);
}

static const struct pw_filter_events play_events = {PW_VERSION_FILTER_EVENTS, .process = on_play},
                                     record_events = {PW_VERSION_FILTER_EVENTS, .process = on_record};

static void open_side(struct pipewire_graph *graph, struct side *side, bool plays, bool freewheels)
{
    char name[32];
    snprintf(name, sizeof name, "%s-%d", plays ? "play" : "record", (int)getpid());
    struct pw_properties *properties =
        pw_properties_new(PW_KEY_NODE_NAME, name, PW_KEY_NODE_ALWAYS_PROCESS, "true", NULL);
    if (freewheels) pw_properties_set(properties, PW_KEY_NODE_GROUP, "pipewire.freewheel");
    side->filter = pw_filter_new(graph->core, name, properties);
    if (!side->filter) die(name, "cannot be made");
    pw_filter_add_listener(side->filter, &side->hook, plays ? &play_events : &record_events, NULL);
    for (int ch = 0; ch < side->n_channels; ch++) {
        snprintf(name, sizeof name, "%d", ch + 1);
        side->ports[ch] = pw_filter_add_port(
            side->filter, plays ? PW_DIRECTION_OUTPUT : PW_DIRECTION_INPUT, PW_FILTER_PORT_FLAG_MAP_BUFFERS, 1,
            pw_properties_new(PW_KEY_FORMAT_DSP, "32 bit float mono audio", PW_KEY_PORT_NAME, name, NULL), NULL, 0);
        if (!side->ports[ch]) die(name, "the port cannot be made");
    }
    if (pw_filter_connect(side->filter, PW_FILTER_FLAG_RT_PROCESS, NULL, 0) != 0) die(name, "cannot be connected");
}

/* Links the ports of a side to OTHER1, OTHER2, ..., which may still be starting. */
static void link_side(struct pipewire_graph *graph, struct side *side, bool plays, const char *other)
{
    char own[32], name[400];
    for (int ch = 0, waited = 0; ch < side->n_channels;) {
        snprintf(own, sizeof own, "%d", ch + 1);
        snprintf(name, sizeof name, "%s%d", other, ch + 1);
        pipewire_graph_lock(graph);
        const struct pipewire_object *ours =
            pipewire_graph_own_port(graph, pw_filter_get_node_id(side->filter), plays, own);
        const struct pipewire_object *theirs = pipewire_graph_find_port(graph, name, !plays);
        if (ours && theirs) {
            pipewire_graph_link(graph, plays ? ours->id : theirs->id, plays ? theirs->id : ours->id);
            pipewire_graph_sync(graph);
            ch++;
        }
        pipewire_graph_unlock(graph);
        if (ours && theirs) continue;
        if ((waited += POLL_MS) > GIVE_UP_MS) die(name, "does not appear");
        pause_ms(POLL_MS);
    }
}

/* Waits until so many cycles have passed through the graph. */
static void pass(long n)
{
    long waited = 0;
    for (long end = atomic_load(&cycles) + n; atomic_load(&cycles) < end; waited += POLL_MS) {
        if (waited > GIVE_UP_MS) die("graph", "does not run");
        pause_ms(POLL_MS);
    }
}

static void read_frames(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) die(path, "cannot be read");
    fseek(file, 0, SEEK_END);
    player.n_frames = ftell(file) / (long)sizeof(float) / player.n_channels;
    rewind(file);
    size_t n = (size_t)player.n_frames * (size_t)player.n_channels;
    player.frames = malloc(n * sizeof(float) + 1);
    if (!player.frames || fread(player.frames, sizeof(float), n, file) != n) die(path, "cannot be read");
    fclose(file);
}

static void force_quantum(struct pipewire_graph *graph, int quantum)
{
    char text[16];
    snprintf(text, sizeof text, "%d", quantum);
    pipewire_graph_lock(graph);
    if (!graph->settings.proxy) die("settings", "absent");
    pw_metadata_set_property((struct pw_metadata *)graph->settings.proxy, 0, "clock.force-quantum", "", text);
    pipewire_graph_unlock(graph);
}

int main(int argc, char **argv)
{
    long resize_at[MAX_RESIZES] = {0};
    int resize_to[MAX_RESIZES] = {0}, n_resizes = 0, resized = 0;
    bool freewheels = false;
    long latency = 0;
    char why[500];
    if (argc < 8)
        die("usage", "PLAY N_IN FIRST LAST N_OUT RECORD N_FRAMES [silence FRAMES] [latency FRAMES] [freewheel] "
                     "[resize FRAME QUANTUM]...");
    player.n_channels = atoi(argv[2]);
    recorder.n_channels = atoi(argv[5]);
    recorder.n_frames = atol(argv[7]);
    for (int i = 8; i < argc; i++) {
        if (strcmp(argv[i], "freewheel") == 0) freewheels = true;
        if (strcmp(argv[i], "silence") == 0 && i + 1 < argc) silence = atol(argv[i + 1]);
        if (strcmp(argv[i], "latency") == 0 && i + 1 < argc) latency = atol(argv[i + 1]);
        if (strcmp(argv[i], "resize") == 0 && i + 2 < argc && n_resizes < MAX_RESIZES) {
            resize_at[n_resizes] = atol(argv[i + 1]);
            resize_to[n_resizes++] = atoi(argv[i + 2]);
        }
    }
    read_frames(argv[1]);
    size_t n = (size_t)recorder.n_frames * (size_t)recorder.n_channels;
    recorder.frames = malloc(n * sizeof(float));
    if (!recorder.frames) die(argv[6], "no memory");
    for (size_t i = 0; i < n; i++) recorder.frames[i] = NAN;

    struct pipewire_graph *graph = pipewire_graph_open(NULL, why, sizeof why);
    if (!graph) die("daemon", why);
    pipewire_graph_lock(graph);
    open_side(graph, &player, true, freewheels);
    open_side(graph, &recorder, false, freewheels);
    if (latency) report_latency(&player, latency);
    pipewire_graph_unlock(graph);
    link_side(graph, &player, true, argv[3]);
    link_side(graph, &recorder, false, argv[4]);
    pass(GRAPH_CYCLES);
    atomic_store(&starts, true);
    bool said = false;
    for (long before = -1, now, waited = 0; (now = atomic_load(&done)) < recorder.n_frames; before = now) {
        waited = now == before ? waited + POLL_MS : 0;
        if (waited > GIVE_UP_MS || atomic_load(&graph->is_down)) die("graph", "plays nothing");
        if (now > 0 && !said) said = puts("begun") >= 0 && fflush(stdout) == 0;
        if (resized < n_resizes && now >= resize_at[resized]) force_quantum(graph, resize_to[resized++]);
        pause_ms(POLL_MS);
    }
    pipewire_graph_lock(graph);
    pw_filter_destroy(player.filter);
    pw_filter_destroy(recorder.filter);
    pipewire_graph_unlock(graph);
    pipewire_graph_close(graph);
    FILE *file = fopen(argv[6], "wb");
    if (!file || fwrite(recorder.frames, sizeof(float), n, file) != n || fclose(file) != 0)
        die(argv[6], "cannot be written");
    free(player.frames);
    free(recorder.frames);
    return 0;
}
