/* recovery - chooses the backend of the next engine, after a failure of the device, its recovery or a request. */
#include "live.h"

#include "dsp/base/await.h"
#include "messages.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double PROBE_MIN_S = 1, PROBE_MAX_S = 300; /* pause between two probes of a device that hung */

static void schedule_probe(hc_live *l, const struct failover *f)
{
    int64_t pause = (int64_t)(1e9 * l->probe_pause_s);
    atomic_store(&l->next_probe_ns, atomic_load(&f->is_hung) ? now_ns() + pause : INT64_MAX);
}

/* May an engine on the CPU replace the device? Yes if a standby engine has shown that the CPU can play the mask. */
static bool cpu_may_play(const hc_live *l, const struct failover *f)
{
    return !f->is_on_cpu && (l->config.standby_share <= 0 || failover_has_standby(f));
}

/* Reports that a device is lost or too slow. Returns true if an engine on the CPU must replace it. */
static bool report_failure(hc_live *l)
{
    struct failover *f = l->newest ? l->newest->failover : NULL;
    if (!f) return false;
    enum hc_live_state state = failover_state(f);
    if (state != HC_LIVE_OK && !l->is_loss_reported) {
        hc_info info = {.size = sizeof info};
        l->is_loss_reported = true;
        /* The pause doubles each time the device fails again. */
        l->probe_pause_s = l->probe_pause_s < PROBE_MIN_S ? PROBE_MIN_S : fmin(2 * l->probe_pause_s, PROBE_MAX_S);
        schedule_probe(l, f);
        hc_get_info(f->main.engine, &info);
        bool plays = state == HC_LIVE_STANDBY || cpu_may_play(l, f);
        live_report(&l->config, HC_LIVE_ERROR, "%s: %s; %s", f->info.device,
                    info.error[0] ? info.error : "the device no longer answers",
                    plays ? "the CPU replaces it"
                    : l->config.lost_dry
                        ? "the CPU is too slow for this mask, so the input passes unchanged; start again"
                        : "the CPU is too slow for this mask, so the output is silent; start again");
        return state == HC_LIVE_LOST && plays;
    }
    if (state != HC_LIVE_OK || !atomic_exchange(&f->is_slow, false) || !cpu_may_play(l, f)) return false;
    live_report(&l->config, HC_LIVE_ERROR, "%s: its blocks come too late; the CPU replaces it", f->info.device);
    return true;
}

/* Probes a device that hung, which may have been busy or suspended. true: it answers again and gets a new engine. */
static bool probe(hc_live *l)
{
    if (!l->is_loss_reported || now_ns() < atomic_load(&l->next_probe_ns)) return false;
    struct failover *f = l->newest->failover;
    bool answers = failover_device_answers(f);
    schedule_probe(l, f);
    if (answers) live_report(&l->config, HC_LIVE_NOTE, "%s: answers again", f->info.device);
    return answers;
}

bool recovery_choose_backend(hc_live *l)
{
    struct text_request request;
    bool to_cpu = report_failure(l), to_requested = probe(l);
    if (mailbox_remove(&l->backend, 0, &request)) {
        snprintf(l->requested_backend, sizeof l->requested_backend, "%.*s", BACKEND_CAP - 1, request.text);
        to_requested = true;
    }
    if (to_requested)
        memcpy(l->next_backend, l->requested_backend, sizeof l->next_backend);
    else if (to_cpu || l->is_loss_reported)
        snprintf(l->next_backend, sizeof l->next_backend, "cpu");
    return to_cpu || to_requested;
}
