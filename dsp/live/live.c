/* live - hc_live_process, and the [rt] calls of haloconv_live.h that any thread may make. */
#include "live.h"

#include "dsp/base/await.h"
#include "dsp/base/denormals.h"
#include "dsp/base/priority.h"
#include "dsp/base/samples.h"
#include "dsp/device/backend.h"
#include "dsp/engine/engine.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { CATCH_UP_CALLS = 2 }; /* blocks of the history that a new engine may process in a call */
static const uint32_t FULL_SCALE_BITS = 0x3f800000;
static const double WAIT_SHARE = 0.5; /* share of a block's time to wait for a device */

/* ---- the engines ------------------------------------------------------------------------------- */

/* Puts the engine of a ready mask back to wait, or returns another engine to the worker. `returned` is empty: join_next
 * checks that before a fade begins. */
static void retire(hc_live *l, struct live_engine *e)
{
    if (!e) return;
    if (!ready_put(&l->ready, e)) atomic_store_explicit(&l->returned, e, memory_order_release);
    atomic_store_explicit(&l->has_work, true, memory_order_release);
}

static void engine_fade_end(hc_live *l)
{
    retire(l, l->former);
    l->former = NULL;
    l->is_fading = false;
}

static void engine_fade_begin(hc_live *l)
{
    l->former = l->playing;
    l->playing = l->joining;
    l->joining = NULL;
    compare_jump(&l->ready.compare, l->playing->number, &l->playing->meter);
    l->is_fading = true;
    l->fade_pos = 0;
    l->fade_len = l->playing->failover->config.fade_frames;
    if (l->is_fresh) engine_fade_end(l);
}

/* Sends the engines how long a device may take for n frames, if that has changed. */
static void set_waits(hc_live *l, int n)
{
    int wait_us = atomic_load_explicit(&l->wait_us, memory_order_relaxed);
    if (stream_freewheels(&l->stream)) wait_us = HC_WAIT_FOREVER;
    struct live_engine *all[] = {l->playing, l->former, l->joining};
    if (wait_us == l->sent_us && n == l->sent_n && memcmp(all, l->sent, sizeof all) == 0) return;
    l->sent_us = wait_us;
    l->sent_n = n;
    memcpy(l->sent, all, sizeof all);
    int rate = stream_rate(&l->stream);
    if (wait_us == 0) wait_us = (int)fmin(INT_MAX, WAIT_SHARE * 1e6 * n / rate / (l->former || l->joining ? 2 : 1));
    if (wait_us == 0) wait_us = 1; /* 0 means the default */
    for (int i = 0; i < 3; i++)
        if (all[i]) failover_set_wait(all[i]->failover, wait_us);
}

/* Dequeues the engine that the worker has built, or the engine that keeps the requested mask ready. Each call then plays
 * some blocks of the history to this engine. At the history's end the fade to this engine begins. */
static void join_next(hc_live *l, int n)
{
    if (l->is_fading || atomic_load_explicit(&l->returned, memory_order_relaxed)) return;
    if (atomic_load_explicit(&l->next, memory_order_relaxed)) {
        struct live_engine *outdated = l->joining, *e = atomic_exchange_explicit(&l->next, NULL, memory_order_acquire);
        if (ready_is_newer(&l->ready, e))
            outdated = e;
        else
            l->joining = e;
        retire(l, outdated);
        if (outdated) return; /* `returned` has room for one engine, and a fade needs it, too */
    }
    struct live_engine *asked = ready_dequeue(&l->ready, l->playing, l->joining);
    if (asked && asked != l->joining) {
        struct live_engine *outdated = l->joining;
        l->joining = asked == l->playing ? NULL : asked;
        retire(l, outdated);
        if (outdated) return;
    }
    if (!l->joining) return;
    set_waits(l, n);
    live_engine_forget(l->joining);
    int64_t max = stream_freewheels(&l->stream) ? INT64_MAX : (int64_t)CATCH_UP_CALLS * n;
    if (failover_catch_up(l->joining->failover, max)) engine_fade_begin(l);
}

/* Plays a block of an engine. An engine of another rate plays silence: the pitch would be wrong. A mask in a comparison
 * is made as loud as the other mask. */
static enum failover_result live_engine_play(hc_live *l, struct live_engine *e, float *const *out, int n, int64_t now)
{
    enum failover_result result = FAILOVER_PLAYED;
    int rate = stream_rate(&l->stream);
    if (e && e->failover->config.rate == rate) {
        const hc_engine *main = e->failover->main.engine; /* a standby engine on the CPU counts no overflow */
        uint64_t before = engine_overflowed(main);
        result = failover_process(e->failover, l->rows, out, n, now);
        l->stats.overflowed += engine_overflowed(main) - before;
    } else {
        failover_silence(out, l->config.n_out, n);
    }
    if (e) compare_equalise(&l->ready.compare, e->number, &e->meter, out, l->config.n_out, n, e->failover->config.rate);
    return result;
}

/* Crossfades two engines with gains that add up to 1, because both have processed the same input. */
static void engine_crossfade(hc_live *l, int n, int64_t now)
{
    live_engine_play(l, l->former, l->faded, n, now);
    for (int o = 0; o < l->config.n_out; o++) {
        float *to = l->wet[o];
        const float *from = l->faded[o];
        for (int i = 0; i < n; i++) to[i] = from[i] + fade_gain(l->fade_pos + i, l->fade_len) * (to[i] - from[i]);
    }
    l->fade_pos += n;
    if (l->fade_pos >= l->fade_len) engine_fade_end(l);
}

/* An engine that is not here yet forgets when it comes (join_next), or while it waits (ready.c). */
static void live_forget(hc_live *l)
{
    atomic_store_explicit(&l->stream.forgotten, input_history_end(&l->stream.history), memory_order_release);
    if (l->is_fading) engine_fade_end(l);
    if (l->playing) live_engine_forget(l->playing);
    mixer_reset(&l->mixer);
    l->limiter.hold = 0;
    l->is_fresh = true;
}

static int max_frames(const hc_live *l)
{
    int max = MAX_BLOCK;
    if (l->playing && l->playing->failover->config.block < max) max = l->playing->failover->config.block;
    if (l->former && l->former->failover->config.block < max) max = l->former->failover->config.block;
    return max;
}

/* ---- a chunk ----------------------------------------------------------------------------------- */

static void measure_input(hc_live *l)
{
    uint32_t peak = 0;
    for (int i = 0; i < l->config.n_in; i++) {
        uint32_t *bits = &l->signals.in_bits[i];
        signals_raise(&l->signals.peaks[i], *bits);
        if (*bits > peak) peak = *bits;
        *bits = 0;
    }
    signals_raise(&l->peak_in, peak);
}

/* Measures the output, and makes it finite: the convolution, a mix or a gain may have overflowed. */
static void live_finish_output(hc_live *l, int n, int rate)
{
    uint32_t peak = 0;
    for (int o = 0; o < l->config.n_out; o++) {
        uint32_t bits = 0;
        size_t clipped;
        l->stats.overflowed += samples_finish_output(l->samples, l->wet[o], n, &clipped, &bits);
        l->stats.clipped += clipped;
        signals_raise(&l->signals.peaks[l->config.n_in + o], bits);
        if (bits > peak) peak = bits;
    }
    signals_raise(&l->peak_out, peak);
    if (!l->config.limit_feedback) return;
    feedback_limiter_run(&l->limiter, l->wet, l->config.n_out, n, rate, peak >= FULL_SCALE_BITS);
    l->stats.limited = l->limiter.n;
}

struct changes { /* that are not applied yet */
    const hc_live_knob_change *next, *end;
};

/* Applies the changes up to a frame. */
static void apply_changes(hc_live *l, struct changes *changes, int frame)
{
    for (; changes->next < changes->end && changes->next->frame <= frame; changes->next++)
        hc_live_set(l, changes->next->knob, changes->next->value);
}

/* Mixes a chunk, which begins at frame `first` of the call, between the changes of knobs. */
static void mix_chunk(hc_live *l, int first, int n, int rate, struct changes *changes)
{
    for (int at = 0, end; at < n; at = end) {
        apply_changes(l, changes, first + at);
        end = changes->next < changes->end && changes->next->frame < first + n ? changes->next->frame - first : n;
        mixer_run(&l->mixer, l->rows, l->wet, at, end - at, rate);
    }
}

/* Convolves a chunk: frames [at, at + n) of the caller's buffers, no more than a block of the engines. The convolution
 * may write to `out` although it may be `in`: it reads the input from the history. */
static enum failover_result process_chunk(hc_live *l, const float *const *in, float *const *out, int at, int n,
                                          int rate, int64_t now, struct changes *changes)
{
    l->stats.non_finite += input_history_write(&l->stream.history, in, at, n, l->rows, l->signals.in_bits);
    measure_input(l);
    for (int o = 0; o < l->config.n_out; o++) l->wet[o] = out[o] + at;
    enum failover_result result = live_engine_play(l, l->playing, l->wet, n, now);
    if (l->is_fading) engine_crossfade(l, n, now);
    input_history_publish(&l->stream.history, n);
    if (l->playing) failover_wake(l->playing->failover);
    if (l->former) failover_wake(l->former->failover);
    l->stats.late += result == FAILOVER_LATE || result == FAILOVER_NO_TAIL;
    l->stats.lost += result == FAILOVER_SILENT;
    if ((result == FAILOVER_LATE && l->config.late_dry) || (result == FAILOVER_SILENT && l->config.lost_dry))
        mixer_pass_input(&l->mixer, l->rows, l->wet, n);
    mix_chunk(l, at, n, rate, changes);
    live_finish_output(l, n, rate);
    signals_record(&l->signals, l->wet, n);
    return result;
}

/* Requests work when the device fails, is too slow or is due for a probe, or when banks no longer play. */
static void watch_device(hc_live *l, int64_t now)
{
    struct failover *f = l->playing ? l->playing->failover : NULL;
    enum hc_live_state state = f ? failover_state(f) : HC_LIVE_OK;
    bool is_slow = f && atomic_load_explicit(&f->is_slow, memory_order_relaxed);
    bool probes = state != HC_LIVE_OK && now > atomic_load_explicit(&l->next_probe_ns, memory_order_relaxed);
    bool has_former = f && f->steered.has_former;
    if (has_former) f->steered.has_former = false;
    if (state != (enum hc_live_state)l->stats.state || is_slow || probes || has_former)
        atomic_store_explicit(&l->has_work, true, memory_order_release);
    l->stats.state = (int)state;
}

/* A reader that sees a word of this snapshot also sees that the snapshot before it is published. This tells the reader
 * that the older snapshot, which it is reading, is overwritten. */
static void stats_publish(hc_live *l)
{
    uint64_t words[STATS_WORDS], i = atomic_load_explicit(&l->published, memory_order_relaxed) + 1;
    memcpy(words, &l->stats, sizeof words);
    for (int k = 0; k < STATS_WORDS; k++)
        atomic_store_explicit(&l->snapshots[i % N_SNAPSHOTS][k], words[k], memory_order_release);
    atomic_store_explicit(&l->published, i, memory_order_release);
}

int hc_live_process(hc_live *l, const float *const *in, float *const *out, int n)
{
    return hc_live_process_changes(l, in, out, n, NULL, 0);
}

int hc_live_process_changes(hc_live *l, const float *const *in, float *const *out, int n,
                            const hc_live_knob_change *given, int n_given)
{
    if (!l || !in || !out || n < 0 || n_given < 0 || (n_given > 0 && !given)) return HC_EINVAL;
    struct changes changes = {given, n_given ? given + n_given : given};
    if (n == 0) apply_changes(l, &changes, INT_MAX);
    if (n == 0) return HC_OK;
    int64_t start = now_ns();
    unsigned fp_state = denormals_off();
    int rate = stream_rate(&l->stream);
    enum failover_result worst = FAILOVER_PLAYED;
    if (atomic_load_explicit(&l->forgets, memory_order_relaxed) &&
        atomic_exchange_explicit(&l->forgets, false, memory_order_acquire))
        live_forget(l);
    join_next(l, n);
    for (int at = 0, chunk; at < n; at += chunk) {
        int max = max_frames(l);
        chunk = n - at < max ? n - at : max;
        set_waits(l, chunk);
        enum failover_result result = process_chunk(l, in, out, at, chunk, rate, at ? now_ns() : start, &changes);
        if (result > worst) worst = result;
        l->is_fresh = false;
    }
    apply_changes(l, &changes, INT_MAX);
    ready_wake(&l->ready);
    watch_device(l, start);
    denormals_restore(fp_state);
    hc_live_stats *s = &l->stats;
    int64_t end = now_ns();
    s->took_ns = (uint64_t)(end - start);
    histogram_add(&l->times, s->took_ns);
    s->overruns += (double)s->took_ns > 1e9 * n / rate && !stream_freewheels(&l->stream);
    s->blocks++;
    s->frames += (uint64_t)n;
    s->faded_out = mixer_is_faded_out(&l->mixer);
    s->changing = l->joining || l->is_fading;
    s->rate = rate;
    stats_publish(l);
    priority_worked(&l->load, start, end);
    return worst == FAILOVER_PLAYED ? HC_OK : worst == FAILOVER_SILENT ? HC_EDEVICE : HC_LATE;
}

/* ---- calls for any thread ---------------------------------------------------------------------- */

void hc_live_set(hc_live *l, int knob, float value)
{
    if (l && knob >= 0 && knob < HC_N_KNOBS && isfinite(value)) mixer_set(&l->mixer, (enum hc_live_knob)knob, value);
}

float hc_live_get(const hc_live *l, int knob)
{
    return l && knob >= 0 && knob < HC_N_KNOBS ? mixer_get(&l->mixer, (enum hc_live_knob)knob) : 0;
}

void hc_live_set_freewheel(hc_live *l, int on)
{
    if (l) atomic_store_explicit(&l->stream.freewheels, on != 0, memory_order_relaxed);
}

void hc_live_forget(hc_live *l)
{
    if (l) atomic_store_explicit(&l->forgets, true, memory_order_release);
}

static int live_steer(hc_live *l, int source, struct steer_target *target)
{
    if (!l || source < 0 || source >= l->positions.n || !isfinite(target->gain)) return HC_EINVAL;
    for (int i = 0; i < 3; i++)
        if (!isfinite(target->position[i])) return HC_EINVAL;
    target->put_us = (unsigned)now_us();
    mailbox_put(&l->positions.targets, source, target, NULL);
    return HC_OK;
}

int hc_live_steer(hc_live *l, int source, const float position[3], int entry, float gain)
{
    if (!position)
        return entry < 0 ? HC_EINVAL : live_steer(l, source, &(struct steer_target){{1, 0, 0}, gain, entry, 0});
    return live_steer(l, source, &(struct steer_target){{position[0], position[1], position[2]}, gain, -1, 0});
}

/* Changes rate and block in one step; 0: no change. At another rate the history begins anew. */
static bool change_format(hc_live *l, int rate, int block)
{
    uint64_t was = atomic_load_explicit(&l->stream.format, memory_order_relaxed), wanted;
    do {
        uint64_t new_rate = (uint64_t)(rate ? rate : format_rate(was));
        wanted = new_rate << 32 | (uint32_t)(block ? block : format_block(was));
        if (wanted == was) return false;
        if (format_rate(wanted) != format_rate(was))
            atomic_store_explicit(&l->stream.begin, input_history_end(&l->stream.history), memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&l->stream.format, &was, wanted, memory_order_release,
                                                    memory_order_relaxed));
    return true;
}

int hc_live_request(hc_live *l, const hc_live_change *given)
{
    hc_live_change change = {0};
    if (!l || !given || given->size < sizeof given->size) return HC_EINVAL;
    memcpy(&change, given, given->size < sizeof change ? given->size : sizeof change);
    if (change.rate < 0 || change.rate > MAX_RATE || change.block < 0 ||
        (change.mask && strlen(change.mask) >= TEXT_CAP) || (change.backend && strlen(change.backend) >= BACKEND_CAP))
        return HC_EINVAL;
    if (change.trim_db != 0 && !(change.trim_db >= 1)) return HC_EINVAL; /* NaN too */
    if (change.mask) ready_request(&l->ready, change.mask, change.number);
    if (change.backend) text_request_put(&l->backend, change.backend, 0);
    bool is_new = (change.rate || change.block) && change_format(l, change.rate, change.block);
    if (change.trim_db != 0 && atomic_exchange(&l->trim_db, change.trim_db) != change.trim_db) is_new = true;
    if (is_new) atomic_fetch_add_explicit(&l->format_requests, 1, memory_order_release);
    if (change.mask || change.backend || is_new) atomic_store_explicit(&l->has_work, true, memory_order_release);
    return HC_OK;
}

int hc_live_has_work(const hc_live *l)
{
    return l && atomic_load_explicit(&l->has_work, memory_order_acquire);
}

void hc_live_get_stats(const hc_live *l, hc_live_stats *stats)
{
    uint64_t words[STATS_WORDS], i, now;
    hc_live_stats all;
    if (!l || !stats) return;
    do { /* three blocks later the snapshot is overwritten */
        i = atomic_load_explicit(&l->published, memory_order_acquire);
        for (int k = 0; k < STATS_WORDS; k++)
            words[k] = atomic_load_explicit(&l->snapshots[i % N_SNAPSHOTS][k], memory_order_acquire);
        now = atomic_load_explicit(&l->published, memory_order_relaxed);
    } while (now - i >= N_SNAPSHOTS - 1);
    memcpy(&all, words, sizeof all);
    all.masks = atomic_load_explicit(&l->masks, memory_order_relaxed);
    all.rebuilds = atomic_load_explicit(&l->rebuilds, memory_order_relaxed);
    all.changing = all.changing || atomic_load_explicit(&l->next, memory_order_relaxed);
    ready_get_stats(&l->ready, &all);
    all.rests = priority_rests();
    all.size = stats->size;
    memcpy(stats, &all, stats->size < sizeof all ? stats->size : sizeof all);
}

void hc_live_get_times(const hc_live *l, hc_times *times)
{
    if (l && times) histogram_read(&l->times, times);
}

void hc_live_take_peaks(hc_live *l, float *in, float *out)
{
    if (!l) return;
    if (in) *in = signals_exchange(&l->peak_in);
    if (out) *out = signals_exchange(&l->peak_out);
}

void hc_live_take_channel_peaks(hc_live *l, float *in, float *out)
{
    if (!l) return;
    for (int i = 0; in && i < l->config.n_in; i++) in[i] = signals_exchange(&l->signals.peaks[i]);
    for (int o = 0; out && o < l->config.n_out; o++) out[o] = signals_exchange(&l->signals.peaks[l->config.n_in + o]);
}
