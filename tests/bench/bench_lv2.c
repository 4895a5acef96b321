/* bench_lv2 - measures what a stereo mask costs in our plugin and in others, live.
 *
 *   bench_lv2 MASK SECONDS BLOCK...
 *
 * lv2bench gives a plugin no mask and no worker. This host (lilv) does: it restores a state with the mask's path, sends
 * a patch:Set of it, and runs the plugins by the clock, one after the other, so that their own threads run in parallel
 * as they do live. First it plays an impulse: a plugin whose tail is silent a second later did not load the mask, and
 * gets no figure. Prints the time of run(), and the processor time of all threads of the process while a plugin runs
 * alone.
 */
#include <lilv/lilv.h>
#include <lv2/atom/atom.h>
#include <lv2/atom/forge.h>
#include <lv2/buf-size/buf-size.h>
#include <lv2/log/log.h>
#include <lv2/options/options.h>
#include <lv2/parameters/parameters.h>
#include <lv2/patch/patch.h>
#include <lv2/state/state.h>
#include <lv2/urid/urid.h>
#include <lv2/worker/worker.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RATE = 48000, MAX_PORTS = 256, QUEUE = 256, MESSAGE = 8192 };

static const struct contestant {
    const char *name, *uri, *property;
    struct {
        const char *symbol;
        float value;
    } set[6];
} contestants[] = {
    {"haloconv", "urn:haloconv:lv2:stereo", "urn:haloconv:lv2:mask", {{"backend", 1}}},
    {"zeroconvolv (x42)",
     "http://gareus.org/oss/lv2/zeroconvolv#Stereo",
     "http://gareus.org/oss/lv2/zeroconvolv#ir",
     {{0}}},
    {"LSP impulse responses",
     "http://lsp-plug.in/plugins/lv2/impulse_responses_stereo",
     "http://lsp-plug.in/plugins/lv2/impulse_responses_stereo/ports#ifn0",
     {{"cs_l", 1}, {"cs_r", 2}, {"dry", 0}, {"wet", 1}}},
    {"LSP impulse reverb",
     "http://lsp-plug.in/plugins/lv2/impulse_reverb_stereo",
     "http://lsp-plug.in/plugins/lv2/impulse_reverb_stereo/ports#ifn0",
     {{"csf0", 1}, {"cst0", 0}, {"csf1", 1}, {"cst1", 1}, {"dry", 0}, {"wet", 1}}},
};
enum { N = sizeof contestants / sizeof *contestants };

/* ---- the host: URIs, a worker, a log that nobody reads ------------------------------------------ */

static pthread_mutex_t uri_lock = PTHREAD_MUTEX_INITIALIZER;
static char *uris[4096];
static uint32_t n_uris;

static LV2_URID map_uri(LV2_URID_Map_Handle handle, const char *uri)
{
    (void)handle;
    pthread_mutex_lock(&uri_lock);
    uint32_t i = 0;
    while (i < n_uris && strcmp(uris[i], uri) != 0) i++;
    if (i == n_uris && n_uris < 4096) uris[n_uris++] = strdup(uri);
    pthread_mutex_unlock(&uri_lock);
    return i + 1;
}

static const char *unmap_uri(LV2_URID_Unmap_Handle handle, LV2_URID urid)
{
    (void)handle;
    return urid && urid <= n_uris ? uris[urid - 1] : NULL;
}

static LV2_URID_Map map = {NULL, map_uri};
static LV2_URID_Unmap unmap = {NULL, unmap_uri};

static LV2_URID id(const char *uri)
{
    return map_uri(NULL, uri);
}

static int log_v(LV2_Log_Handle handle, LV2_URID type, const char *format, va_list args)
{
    (void)handle, (void)type, (void)format, (void)args;
    return 0;
}

static int log_f(LV2_Log_Handle handle, LV2_URID type, const char *format, ...)
{
    (void)handle, (void)type, (void)format;
    return 0;
}

struct item {
    uint32_t size;
    char data[8192];
};
struct queue {
    struct item items[QUEUE];
    volatile unsigned head, tail;
};

struct plugin {
    const struct contestant *is;
    const LilvPlugin *lilv;
    LilvInstance *instance;
    const LV2_Worker_Interface *work;
    struct queue requests, answers;
    pthread_t thread;
    volatile bool end;
    float value[MAX_PORTS];
    float *audio[4];
    _Alignas(8) char in[MESSAGE];
    char *atoms_out;
};

static LV2_Worker_Status push(struct queue *q, uint32_t size, const void *data)
{
    if (q->head - q->tail == QUEUE || size > sizeof q->items[0].data) return LV2_WORKER_ERR_NO_SPACE;
    struct item *item = &q->items[q->head % QUEUE];
    item->size = size;
    memcpy(item->data, data, size);
    __sync_synchronize();
    q->head++;
    return LV2_WORKER_SUCCESS;
}

static LV2_Worker_Status schedule(LV2_Worker_Schedule_Handle handle, uint32_t size, const void *data)
{
    return push(&((struct plugin *)handle)->requests, size, data);
}

static LV2_Worker_Status respond(LV2_Worker_Respond_Handle handle, uint32_t size, const void *data)
{
    return push(&((struct plugin *)handle)->answers, size, data);
}

static void *worker(void *arg)
{
    struct plugin *p = arg;
    while (!p->end) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        while (p->requests.tail != p->requests.head) {
            struct item *item = &p->requests.items[p->requests.tail % QUEUE];
            p->work->work(lilv_instance_get_handle(p->instance), respond, p, item->size, item->data);
            p->requests.tail++;
        }
    }
    return NULL;
}

/* ---- a plugin ----------------------------------------------------------------------------------- */

static void connect_ports(LilvWorld *world, struct plugin *p)
{
    LilvNode *audio = lilv_new_uri(world, LV2_CORE__AudioPort), *control = lilv_new_uri(world, LV2_CORE__ControlPort),
             *input = lilv_new_uri(world, LV2_CORE__InputPort), *atom = lilv_new_uri(world, LV2_ATOM__AtomPort);
    uint32_t n = lilv_plugin_get_num_ports(p->lilv);
    if (n > MAX_PORTS) exit(1);
    lilv_plugin_get_port_ranges_float(p->lilv, NULL, NULL, p->value);
    int in = 0, out = 2;
    for (uint32_t i = 0; i < n; i++) {
        const LilvPort *port = lilv_plugin_get_port_by_index(p->lilv, i);
        const char *symbol = lilv_node_as_string(lilv_port_get_symbol(p->lilv, port));
        bool is_in = lilv_port_is_a(p->lilv, port, input);
        if (lilv_port_is_a(p->lilv, port, audio)) {
            int which = is_in ? in++ : out++;
            lilv_instance_connect_port(p->instance, i, p->audio[which]);
        } else if (lilv_port_is_a(p->lilv, port, control)) {
            if (isnan(p->value[i])) p->value[i] = 0;
            for (int k = 0; k < 6 && p->is->set[k].symbol; k++)
                if (strcmp(p->is->set[k].symbol, symbol) == 0) p->value[i] = p->is->set[k].value;
            lilv_instance_connect_port(p->instance, i, &p->value[i]);
        } else if (lilv_port_is_a(p->lilv, port, atom)) {
            lilv_instance_connect_port(p->instance, i, is_in ? p->in : p->atoms_out);
        } else {
            lilv_instance_connect_port(p->instance, i, NULL);
        }
    }
    lilv_node_free(audio), lilv_node_free(control), lilv_node_free(input), lilv_node_free(atom);
}

/* The input sequence: empty, or a patch:Set of the mask. */
static void write_messages(struct plugin *p, const char *mask)
{
    LV2_Atom_Forge forge;
    LV2_Atom_Forge_Frame sequence, object;
    lv2_atom_forge_init(&forge, &map);
    lv2_atom_forge_set_buffer(&forge, (uint8_t *)p->in, sizeof p->in);
    lv2_atom_forge_sequence_head(&forge, &sequence, 0);
    if (mask) {
        lv2_atom_forge_frame_time(&forge, 0);
        lv2_atom_forge_object(&forge, &object, 0, id(LV2_PATCH__Set));
        lv2_atom_forge_key(&forge, id(LV2_PATCH__property));
        lv2_atom_forge_urid(&forge, id(p->is->property));
        lv2_atom_forge_key(&forge, id(LV2_PATCH__value));
        lv2_atom_forge_path(&forge, mask, (uint32_t)strlen(mask));
        lv2_atom_forge_pop(&forge, &object);
    }
    lv2_atom_forge_pop(&forge, &sequence);
}

static void run(struct plugin *p, int block)
{
    LV2_Atom *out = (LV2_Atom *)(void *)p->atoms_out;
    out->type = id(LV2_ATOM__Chunk);
    out->size = MESSAGE - sizeof *out;
    lilv_instance_run(p->instance, (uint32_t)block);
    while (p->answers.tail != p->answers.head) {
        struct item *item = &p->answers.items[p->answers.tail % QUEUE];
        p->work->work_response(lilv_instance_get_handle(p->instance), item->size, item->data);
        p->answers.tail++;
    }
    if (p->work && p->work->end_run) p->work->end_run(lilv_instance_get_handle(p->instance));
}

static bool restore(LilvWorld *world, struct plugin *p, const char *mask, const LV2_Feature *const *features)
{
    char path[] = "/tmp/bench-lv2-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) return false;
    fprintf(file,
            "@prefix lv2: <http://lv2plug.in/ns/lv2core#> .\n@prefix pset: <http://lv2plug.in/ns/ext/presets#> .\n"
            "@prefix state: <http://lv2plug.in/ns/ext/state#> .\n"
            "<> a pset:Preset ; lv2:appliesTo <%s> ; state:state [ <%s> <file://%s> ] .\n",
            p->is->uri, p->is->property, mask);
    fclose(file);
    LilvState *state = lilv_state_new_from_file(world, &map, NULL, path);
    remove(path);
    if (state) lilv_state_restore(state, p->instance, NULL, NULL, 0, features);
    lilv_state_free(state);
    return state != NULL;
}

static struct plugin *plugin_open(LilvWorld *world, const struct contestant *is, int block, const char *mask)
{
    LilvNode *uri = lilv_new_uri(world, is->uri);
    struct plugin *p = calloc(1, sizeof *p);
    p->is = is;
    p->lilv = lilv_plugins_get_by_uri(lilv_world_get_all_plugins(world), uri);
    lilv_node_free(uri);
    if (!p->lilv) {
        free(p);
        return NULL;
    }
    int32_t frames = block, atoms = MESSAGE;
    float rate = RATE;
    LV2_Options_Option options[] = {
        {LV2_OPTIONS_INSTANCE, 0, id(LV2_BUF_SIZE__minBlockLength), sizeof frames, id(LV2_ATOM__Int), &frames},
        {LV2_OPTIONS_INSTANCE, 0, id(LV2_BUF_SIZE__maxBlockLength), sizeof frames, id(LV2_ATOM__Int), &frames},
        {LV2_OPTIONS_INSTANCE, 0, id(LV2_BUF_SIZE__nominalBlockLength), sizeof frames, id(LV2_ATOM__Int), &frames},
        {LV2_OPTIONS_INSTANCE, 0, id(LV2_BUF_SIZE__sequenceSize), sizeof atoms, id(LV2_ATOM__Int), &atoms},
        {LV2_OPTIONS_INSTANCE, 0, id(LV2_PARAMETERS__sampleRate), sizeof rate, id(LV2_ATOM__Float), &rate},
        {LV2_OPTIONS_INSTANCE, 0, 0, 0, 0, NULL}};
    LV2_Worker_Schedule *kept = malloc(sizeof *kept);
    *kept = (LV2_Worker_Schedule){p, schedule};
    static LV2_Log_Log quiet = {NULL, log_f, log_v};
    LV2_Feature all[] = {{LV2_URID__map, &map},
                         {LV2_URID__unmap, &unmap},
                         {LV2_OPTIONS__options, options},
                         {LV2_WORKER__schedule, kept},
                         {LV2_LOG__log, &quiet},
                         {LV2_BUF_SIZE__boundedBlockLength, NULL},
                         {LV2_BUF_SIZE__fixedBlockLength, NULL},
                         {LV2_BUF_SIZE__powerOf2BlockLength, NULL}};
    const LV2_Feature *features[9];
    for (int i = 0; i < 8; i++) features[i] = &all[i];
    features[8] = NULL;
    p->instance = lilv_plugin_instantiate(p->lilv, RATE, features);
    if (!p->instance) {
        free(p);
        return NULL;
    }
    p->work = lilv_instance_get_extension_data(p->instance, LV2_WORKER__interface);
    p->atoms_out = aligned_alloc(8, MESSAGE);
    for (int ch = 0; ch < 4; ch++) p->audio[ch] = calloc((size_t)block, sizeof(float));
    connect_ports(world, p);
    restore(world, p, mask, features);
    lilv_instance_activate(p->instance);
    if (p->work) pthread_create(&p->thread, NULL, worker, p);
    return p;
}

/* ---- the measurement ---------------------------------------------------------------------------- */

static double clock_s(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_until(double when)
{
    struct timespec t = {(time_t)when, (long)((when - floor(when)) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) continue;
}

static uint64_t noise_state = 1; /* HC_TEST_SEED is added */

static void noise_into(float *x, int n)
{
    for (int i = 0; i < n; i++) {
        noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(int32_t)(noise_state >> 32) / 2147483648.0f;
    }
}

/* Run by the clock; processor time of the whole process meanwhile. */
static double play(struct plugin *p, int block, int n_blocks, bool noise, double *took, double *cpu_s)
{
    double due = clock_s(CLOCK_MONOTONIC), cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID), energy = 0;
    for (int i = 0; i < n_blocks; i++) {
        for (int ch = 0; ch < 2; ch++) {
            if (noise)
                noise_into(p->audio[ch], block);
            else
                memset(p->audio[ch], 0, (size_t)block * sizeof(float));
        }
        if (!noise && i == 0) p->audio[0][0] = p->audio[1][0] = 1;
        double t = clock_s(CLOCK_MONOTONIC);
        run(p, block);
        if (took) took[i] = clock_s(CLOCK_MONOTONIC) - t;
        if (!noise && i * block > RATE)
            for (int k = 0; k < block; k++) energy += (double)p->audio[3][k] * (double)p->audio[3][k];
        due += (double)block / RATE;
        sleep_until(due);
    }
    if (cpu_s) *cpu_s = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    return energy;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    char mask[4096];
    if (argc < 4 || !realpath(argv[1], mask)) {
        fprintf(stderr, "bench_lv2: needs MASK SECONDS BLOCK...\n");
        return 2;
    }
    FILE *table = fdopen(dup(STDOUT_FILENO), "w"); /* plugins print to standard output too */
    if (!table || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
    double seconds = atof(argv[2]);
    const char *seed = getenv("HC_TEST_SEED");
    noise_state += seed ? strtoull(seed, NULL, 0) : 0;
    fprintf(stderr, "HC_TEST_SEED=%s\n", seed ? seed : "0");
    LilvWorld *world = lilv_world_new();
    lilv_world_load_all(world);
    fprintf(
        table,
        "| %-22s | block | run() p50 us | p99 us | worst us | all threads, %% of a core |\n|---|--:|--:|--:|--:|--:|\n",
        "plugin");
    for (int a = 3; a < argc; a++) {
        int block = atoi(argv[a]), n_blocks = (int)(seconds * RATE) / block;
        for (int i = 0; i < N; i++) {
            struct plugin *p = plugin_open(world, &contestants[i], block, mask);
            if (!p) {
                fprintf(table, "| %-22s | %5d | not installed | | | |\n", contestants[i].name, block);
                continue;
            }
            write_messages(p, mask);
            play(p, block, 1, true, NULL, NULL);
            write_messages(p, NULL);
            play(p, block, 4 * RATE / block, true, NULL, NULL); /* it loads, and fades in */
            for (int quiet = 0; quiet < 4 * RATE / block; quiet++) {
                memset(p->audio[0], 0, (size_t)block * sizeof(float));
                memset(p->audio[1], 0, (size_t)block * sizeof(float));
                run(p, block);
            }
            double tail = play(p, block, 2 * RATE / block, false, NULL, NULL), cpu;
            double *took = calloc((size_t)n_blocks, sizeof *took);
            play(p, block, n_blocks, true, took, &cpu);
            qsort(took, (size_t)n_blocks, sizeof *took, ascending);
            if (tail > 1e-7)
                fprintf(table, "| %-22s | %5d | %12.1f | %6.1f | %8.1f | %24.2f |\n", contestants[i].name, block,
                        took[n_blocks / 2] * 1e6, took[n_blocks * 99 / 100] * 1e6, took[n_blocks - 1] * 1e6,
                        cpu / seconds * 100);
            else
                fprintf(table, "| %-22s | %5d | no mask (tail %.1e) | | | |\n", contestants[i].name, block, tail);
            fflush(table);
            p->end = true;
            if (p->work) pthread_join(p->thread, NULL);
            lilv_instance_deactivate(p->instance);
            lilv_instance_free(p->instance);
            free(took);
        }
    }
    fclose(table);
    lilv_world_free(world);
    return 0;
}
