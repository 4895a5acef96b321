/* live_info - describes to the host what plays: the newest engine, its mask and banks. */
#include "live.h"

#include "messages.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

void live_info_set(hc_live *l, const char *path, const struct live_mask *live_mask)
{
    const hc_responses *mask = &live_mask->responses;
    const struct bank_set *banks = live_mask->banks;
    const hc_info *info = &l->newest->failover->info;
    size_t n_out = (size_t)l->config.n_out;
    pthread_mutex_lock(&l->info_lock);
    l->info = (hc_live_info){.backend = info->backend,
                             .method = info->method,
                             .ready_memory = l->info.ready_memory,
                             .rate = l->format_used.rate,
                             .block = l->format_used.block,
                             .longest = live_mask_longest(live_mask)};
    if (banks) {
        l->info.n_sources = banks->n_sources;
        l->info.n_banks = banks->n_banks;
        l->info.n_entries = banks->n_entries;
        l->info.n_bank_out = banks->n_out;
        l->info.bank_gain_db = banks->gain_db;
    }
    memcpy(l->info.device, info->device, sizeof l->info.device);
    snprintf(l->path, sizeof l->path, "%s", path);
    memset(l->reaches, 0, (size_t)l->config.n_in * n_out);
    for (int i = 0; i < mask->n_routes; i++)
        l->reaches[(size_t)mask->routes[i].in * n_out + (size_t)mask->routes[i].out] = 1;
    for (int s = 0; s < l->config.n_sources; s++) {
        const hc_bank_data *bank = banks && s < banks->n_sources ? &banks->banks[banks->sources[s].bank] : NULL;
        if (bank) memset(l->reaches + (size_t)s * n_out, 1, (size_t)bank->n_out);
        l->n_entries[s] = bank ? bank->n_entries : 0;
    }
    pthread_mutex_unlock(&l->info_lock);
}

void live_info_report(const hc_live *l, const char *path)
{
    const hc_info *info = &l->newest->failover->info;
    int rate = l->format_used.rate;
    const struct bank_set *banks = l->mask.banks;
    if (banks) {
        char gain[32] = "none";
        double gain_db = rint(10 * (double)banks->gain_db) / 10 + 0.0; /* not -0.0 */
        if (gain_db > -INFINITY) snprintf(gain, sizeof gain, "%+.1f dB", gain_db);
        live_report(
            &l->config, HC_LIVE_NOTE,
            "%s: loaded, %d source%s, %d entr%s for %d output%s, %.3f s (%d frame%s at %d Hz), largest gain %s, "
            "%d route%s; %s, %s",
            path, banks->n_sources, PLURAL(banks->n_sources), banks->n_entries, banks->n_entries == 1 ? "y" : "ies",
            banks->n_out, PLURAL(banks->n_out), (double)banks->n_taps / rate, banks->n_taps, PLURAL(banks->n_taps),
            rate, gain, l->mask.responses.n_routes, PLURAL(l->mask.responses.n_routes), info->device, info->method);
        return;
    }
    live_report(&l->config, HC_LIVE_NOTE, "%s: loaded, %.3f s (%d frame%s at %d Hz), %d route%s; %s, %s", path,
                (double)l->mask.responses.n_frames / rate, l->mask.responses.n_frames,
                PLURAL(l->mask.responses.n_frames), rate, l->mask.responses.n_routes,
                PLURAL(l->mask.responses.n_routes), info->device, info->method);
}

void hc_live_get_info(hc_live *l, hc_live_info *info)
{
    if (!l || !info) return;
    pthread_mutex_lock(&l->info_lock);
    hc_live_info full = l->info;
    full.size = info->size;
    if (info->size >= offsetof(hc_live_info, ready_memory)) full.reaches = info->reaches;
    if (full.reaches) memcpy(full.reaches, l->reaches, (size_t)l->config.n_in * (size_t)l->config.n_out);
    memcpy(info, &full, full.size < sizeof full ? full.size : sizeof full);
    pthread_mutex_unlock(&l->info_lock);
}

size_t hc_live_mask(hc_live *l, char *path, size_t cap)
{
    if (!l) return 0;
    pthread_mutex_lock(&l->info_lock);
    size_t length = strlen(l->path);
    snprintf(path, cap, "%s", l->path);
    pthread_mutex_unlock(&l->info_lock);
    return length;
}

int hc_live_n_entries(hc_live *l, int source)
{
    if (!l || source < 0 || source >= l->config.n_sources) return 0;
    pthread_mutex_lock(&l->info_lock);
    int n_entries = l->n_entries[source];
    pthread_mutex_unlock(&l->info_lock);
    return n_entries;
}

int hc_live_get_signals(hc_live *l, float *const *in, float *const *out, int n)
{
    if (!l || !in || !out || n < 1 || n > HC_LIVE_MAX_SIGNAL) return HC_EINVAL;
    pthread_mutex_lock(&l->info_lock);
    bool good = signals_read(&l->signals, &l->stream.history, stream_rate(&l->stream), in, out, n);
    pthread_mutex_unlock(&l->info_lock);
    return good ? HC_OK : HC_ENOMEM;
}
