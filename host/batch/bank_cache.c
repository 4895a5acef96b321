#include "bank_cache.h"

#include "host/message.h"

#include <stdlib.h>
#include <string.h>

void bank_cache_open(struct bank_cache *cache, int64_t bound, int n_threads, const struct moving_settings *settings)
{
    *cache = (struct bank_cache){.bound = bound, .n_threads = n_threads, .settings = settings};
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->loaded, NULL);
}

static void bank_delete(struct cached_bank *bank)
{
    hc_renderer_close(bank->renderer);
    hc_bank_data_free(&bank->data);
    pthread_mutex_destroy(&bank->turn);
    free(bank->path);
    free(bank->backend);
    free(bank);
}

void bank_cache_close(struct bank_cache *cache)
{
    for (struct cached_bank *bank = cache->banks, *next; bank; bank = next) {
        next = bank->next;
        bank_delete(bank);
    }
    pthread_cond_destroy(&cache->loaded);
    pthread_mutex_destroy(&cache->lock);
}

/* Under lock: drops the oldest banks that no worker uses, until the others fit. */
static void shrink(struct bank_cache *cache)
{
    while (cache->bytes > cache->bound) {
        struct cached_bank **oldest = NULL;
        for (struct cached_bank **link = &cache->banks; *link; link = &(*link)->next)
            if ((*link)->users == 0) oldest = link;
        if (!oldest) return;
        struct cached_bank *bank = *oldest;
        *oldest = bank->next;
        cache->bytes -= bank->bytes;
        bank_delete(bank);
    }
}

/* Under lock: takes a bank out of the list. NULL: it is not there. */
static struct cached_bank *unlink_bank(struct bank_cache *cache, const char *path, const char *backend, int rate)
{
    for (struct cached_bank **link = &cache->banks; *link; link = &(*link)->next) {
        struct cached_bank *bank = *link;
        if (bank->rate != rate || strcmp(bank->path, path) != 0 || strcmp(bank->backend, backend) != 0) continue;
        *link = bank->next;
        return bank;
    }
    return NULL;
}

static struct cached_bank *bank_new(const char *path, const char *backend, int rate)
{
    struct cached_bank *bank = calloc(1, sizeof *bank);
    if (!bank) return NULL;
    *bank = (struct cached_bank){.path = strdup(path), .backend = strdup(backend), .rate = rate, .loading = true};
    pthread_mutex_init(&bank->turn, NULL);
    if (bank->path && bank->backend) return bank;
    bank_delete(bank);
    return NULL;
}

static void load(struct bank_cache *cache, struct cached_bank *bank)
{
    hc_render_config config = {.size = sizeof config,
                               .backend = bank->backend,
                               .step = cache->settings->path_options.step,
                               .n_threads = cache->n_threads};
    bank->failed = !moving_bank_load(&bank->data, bank->path, bank->rate, &cache->settings->bank,
                                     cache->settings->path_options.mixes, bank->why, sizeof bank->why) ||
                   hc_renderer_open(&config, &bank->data, &bank->renderer, bank->why, sizeof bank->why) != HC_OK;
    if (bank->failed) {
        hc_bank_data_free(&bank->data);
        return;
    }
    moving_bank_print(&bank->data, bank->path);
    /* The taps, and their spectra, which are twice as long. */
    bank->bytes = 12ll * bank->data.n_entries * bank->data.n_out * bank->data.n_taps;
}

struct cached_bank *bank_cache_take(struct bank_cache *cache, const char *path, const char *backend, int rate,
                                    char *why, size_t cap)
{
    pthread_mutex_lock(&cache->lock);
    struct cached_bank *bank = unlink_bank(cache, path, backend, rate);
    bool is_new = !bank;
    if (is_new) bank = bank_new(path, backend, rate);
    if (bank) {
        bank->next = cache->banks;
        cache->banks = bank;
        bank->users++;
        if (is_new) {
            pthread_mutex_unlock(&cache->lock);
            load(cache, bank);
            pthread_mutex_lock(&cache->lock);
            bank->loading = false;
            cache->bytes += bank->bytes;
            pthread_cond_broadcast(&cache->loaded);
            shrink(cache);
        }
        while (bank->loading) pthread_cond_wait(&cache->loaded, &cache->lock);
        if (bank->failed) {
            message_write(why, cap, "%s", bank->why);
            bank->users--;
            bank = NULL;
        }
    } else {
        message_write(why, cap, "%s: no memory for a bank; free some memory", path);
    }
    pthread_mutex_unlock(&cache->lock);
    return bank;
}

void bank_cache_give_back(struct bank_cache *cache, struct cached_bank *bank)
{
    if (!bank) return;
    pthread_mutex_lock(&cache->lock);
    bank->users--;
    shrink(cache);
    pthread_mutex_unlock(&cache->lock);
}

bool cached_bank_render(struct cached_bank *bank, const hc_render_job *jobs, int n, char *why, size_t cap)
{
    pthread_mutex_lock(&bank->turn);
    int error = hc_render(bank->renderer, jobs, sizeof *jobs, n, why, cap);
    pthread_mutex_unlock(&bank->turn);
    return error == HC_OK;
}
