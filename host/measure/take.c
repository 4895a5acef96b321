#include "take_driver.h"

#include "host/message.h"
#include "host/stopwatch.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double SILENT_S = 10;  /* time without a callback after which a card is gone */
enum { OPEN_S = 20, CLOSE_S = 2 };  /* a call of the library that lasts longer is stuck */
static const double SETTLE_S = 0.2; /* until JACK has ordered its clients, and a card has its regular cycle */
static const long POLL_NS = 10000000;

/* ---- callbacks --------------------------------------------------------------------------------- */

/* Begins a cycle of a side. A missing frame on the clock is a gap. */
static void side_begin(struct take *t, struct take_side *side, uint32_t time, int n)
{
    if (!side->is_new && time != side->next) atomic_fetch_add(&t->gaps, 1);
    side->is_new = false;
    side->next = time + (uint32_t)n;
}

/* Finds frames first ... end - 1 of a cycle of n that belong to a sound of `length`; the cycle begins at its frame
 * `at`. */
static void overlap(int64_t at, int n, int64_t length, int64_t *first, int64_t *end)
{
    *first = at < 0 ? -at : 0;
    *end = length - at < n ? length - at : n;
}

void take_play_cycle(struct take *t, uint32_t time, float *const *out, int n)
{
    int64_t first, end;
    side_begin(t, &t->player, time, n);
    for (int o = 0; o < t->settings.n_outputs; o++) memset(out[o], 0, (size_t)n * sizeof *out[o]);
    struct take_job *job = atomic_load(&t->job);
    if (job && !atomic_load(&job->has_start)) { /* start in a later cycle, because the recorder may have run already in this cycle */
        atomic_store(&job->start, time + 2 * (uint32_t)n);
        atomic_store(&job->has_start, true);
    }
    if (job) {
        int64_t at = (int32_t)(time - atomic_load(&job->start));
        overlap(at, n, job->n_play, &first, &end);
        if (first < end)
            memcpy(out[job->output] + first, job->play + (at + first), (size_t)(end - first) * sizeof *job->play);
        atomic_store(&job->played, at + n);
    }
    atomic_fetch_add(&t->player.passed, n);
}

void take_record_cycle(struct take *t, uint32_t time, const float *const *in, int n)
{
    int64_t first, end;
    side_begin(t, &t->recorder, time, n);
    struct take_job *job = atomic_load(&t->job);
    if (job && atomic_load(&job->has_start)) {
        int64_t at = (int32_t)(time - atomic_load(&job->start));
        overlap(at, n, job->n_record, &first, &end);
        for (int i = 0; first < end && i < t->settings.n_inputs; i++)
            memcpy(job->record[i] + (at + first), in[i] + first, (size_t)(end - first) * sizeof *in[i]);
        atomic_store(&job->recorded, at + n);
    }
    atomic_fetch_add(&t->recorder.passed, n);
}

/* ---- waiting ----------------------------------------------------------------------------------- */

static sigset_t ending_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

/* Waits a moment. false: SIGINT or SIGTERM came. */
static bool pause_for_signal(void)
{
    sigset_t set = ending_signals();
    return sigtimedwait(&set, NULL, &(struct timespec){.tv_nsec = POLL_NS}) < 0;
}

static int64_t frames_passed(struct take *t)
{
    int64_t played = atomic_load(&t->player.passed), recorded = atomic_load(&t->recorder.passed);
    return played < recorded ? played : recorded;
}

/* Waits until is_done(t, goal). false: no sound comes any more, or a signal came. */
static bool wait_until(struct take *t, bool (*is_done)(struct take *t, int64_t goal), int64_t goal,
                       void (*progress)(void *data, int64_t frames), void *data, char *why, size_t cap)
{
    int64_t last = -1;
    double last_s = stopwatch_now();
    while (!is_done(t, goal)) {
        struct take_job *job = atomic_load(&t->job);
        int64_t passed = frames_passed(t), recorded = job ? atomic_load(&job->recorded) : 0;
        if (passed != last) last_s = stopwatch_now();
        last = passed;
        if (atomic_load(&t->is_down))
            return message_write(why, cap, "%s: the sound ended; check that its server or device still runs",
                                 t->settings.api);
        if (stopwatch_now() - last_s > SILENT_S)
            return message_write(why, cap, "%s: nothing was played for %g s; restart its server, or use another device",
                                 t->settings.api, SILENT_S);
        if (!pause_for_signal()) return message_write(why, cap, "a signal ended the measurement; repeat it");
        if (progress && recorded > 0) progress(data, recorded < goal ? recorded : goal);
    }
    return true;
}

static bool has_passed(struct take *t, int64_t goal)
{
    return frames_passed(t) >= goal;
}

/* A take with a gap is not played to its end. */
static bool has_played(struct take *t, int64_t goal)
{
    (void)goal;
    struct take_job *job = atomic_load(&t->job);
    if (atomic_load(&t->gaps) != job->gaps_before) return true;
    return atomic_load(&job->played) >= job->n_play && atomic_load(&job->recorded) >= job->n_record;
}

/* Waits for n frames. */
static bool pass(struct take *t, int64_t n, char *why, size_t cap)
{
    int64_t played = atomic_load(&t->player.passed), recorded = atomic_load(&t->recorder.passed);
    return wait_until(t, has_passed, (played > recorded ? played : recorded) + n, NULL, NULL, why, cap);
}

/* ---- takes ------------------------------------------------------------------------------------- */

static void *open_in_thread(void *data)
{
    struct take *t = data;
    t->is_open = t->driver->open(t, t->why, sizeof t->why);
    return NULL;
}

static void *close_in_thread(void *data)
{
    struct take *t = data;
    t->driver->close(t);
    return NULL;
}

/* Calls the library in a thread, because some of its calls wait for a server that hangs. */
static void call_bounded(struct take *t, void *(*call)(void *take), int seconds)
{
    pthread_t thread;
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += seconds;
    if (pthread_create(&thread, NULL, call, t) != 0) {
        call(t);
    } else if (pthread_timedjoin_np(thread, NULL, &deadline) != 0) {
        t->is_stuck = true;
        pthread_detach(thread);
    }
}

static void take_end(struct take *t)
{
    if (!t->is_closed && !t->is_stuck) call_bounded(t, close_in_thread, CLOSE_S);
    t->is_closed = true;
}

/* Plays a job. No callback has the job once both have run again. */
static bool play_job(struct take *t, struct take_job *job, void (*progress)(void *data, int64_t frames), void *data)
{
    atomic_store(&t->job, job);
    bool good = wait_until(t, has_played, job->n_record, progress, data, t->why, sizeof t->why);
    atomic_store(&t->job, NULL);
    good = good && pass(t, 1, t->why, sizeof t->why);
    if (!good) take_end(t);
    return good;
}

bool take_play(struct take *t, int output, const float *play, int64_t n_play, float *const *record, int64_t n_record,
               void (*progress)(void *data, int64_t frames), void *data, char *why, size_t cap)
{
    struct take_job job = {.output = output,
                           .play = play,
                           .n_play = n_play,
                           .record = record,
                           .n_record = n_record,
                           .gaps_before = atomic_load(&t->gaps)};
    if (t->is_closed) return message_write(why, cap, "%s", t->why);
    for (int i = 0; i < t->settings.n_inputs; i++) /* no page fault in the callback */
        memset(record[i], 0, (size_t)n_record * sizeof *record[i]);
    if (!play_job(t, &job, progress, data)) return message_write(why, cap, "%s", t->why);
    int gaps = atomic_load(&t->gaps) - job.gaps_before;
    return gaps == 0 || message_write(why, cap, "%s: the sound was interrupted %d time%s; %s", t->settings.api, gaps,
                                      message_s(gaps), t->driver->gap);
}

struct take *take_open(const struct take_settings *settings, char *why, size_t cap)
{
    struct take *t = calloc(1, sizeof *t);
    if (!t) {
        message_write(why, cap, "%s: no memory; free some memory", settings->api);
        return NULL;
    }
    *t = (struct take){.settings = *settings,
                       .driver = strcmp(settings->api, "jack") == 0 ? &take_jack : &take_portaudio,
                       .player.is_new = true,
                       .recorder.is_new = true};
    sigset_t set = ending_signals();
    pthread_sigmask(SIG_BLOCK, &set, &t->signals);
    call_bounded(t, open_in_thread, OPEN_S);
    if (t->is_stuck)
        message_write(why, cap, "%s: its server does not answer; restart it", settings->api);
    else if (!t->is_open)
        message_write(why, cap, "%s", t->why);
    else if (pass(t, (int64_t)(SETTLE_S * t->rate), why, cap))
        return t;
    take_close(t);
    return NULL;
}

bool take_has_jack(const char *server)
{
    char why[MESSAGE_CAP];
    struct take *take = take_open(&(struct take_settings){.api = "jack", .server = server}, why, sizeof why);
    take_close(take);
    return take != NULL;
}

int take_rate(const struct take *t)
{
    return t->rate;
}

void take_output_name(const struct take *t, int output, char *name, size_t cap)
{
    t->driver->name_output(t, output, name, cap);
}

void take_close(struct take *t)
{
    if (!t) return;
    take_end(t);
    pthread_sigmask(SIG_SETMASK, &t->signals, NULL);
    if (!t->is_stuck) free(t);
}
