#include "scene_file_job.h"

#include "draw.h"
#include "host/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- banks ------------------------------------------------------------------------------------- */

struct bank_key {
    char backend[32];
    int rate; /* rate of the inputs: the bank is resampled to this rate */
    bool mixes;
};

struct batch_bank {
    struct cache_entry entry;
    struct bank_key key;
    hc_bank_data data;
    hc_renderer *renderer;
    pthread_mutex_t turn; /* one caller of hc_render at a time */
};

static void bank_init(struct cache_entry *entry, const void *key)
{
    struct batch_bank *bank = (struct batch_bank *)entry;
    bank->key = *(const struct bank_key *)key;
    pthread_mutex_init(&bank->turn, NULL);
}

static bool bank_has_key(const struct cache_entry *entry, const void *key)
{
    const struct bank_key *a = &((const struct batch_bank *)entry)->key, *b = key;
    return a->rate == b->rate && a->mixes == b->mixes && strcmp(a->backend, b->backend) == 0;
}

static bool batch_bank_load(struct cache_entry *entry, const void *data)
{
    const struct scene_file_settings *settings = data;
    struct batch_bank *bank = (struct batch_bank *)entry;
    hc_render_config config = {
        .size = sizeof config, .backend = bank->key.backend, .step = settings->path_options.step};
    if (!scene_file_bank_load(&bank->data, entry->path, bank->key.rate, &settings->bank, bank->key.mixes, entry->why,
                          sizeof entry->why) ||
        hc_renderer_open(&config, &bank->data, &bank->renderer, entry->why, sizeof entry->why) != HC_OK) {
        hc_bank_data_free(&bank->data);
        return false;
    }
    scene_file_bank_print(&bank->data, entry->path);
    /* This counts the taps, and their spectra, which are twice as long. */
    entry->bytes = 12ll * bank->data.n_entries * bank->data.n_out * bank->data.n_taps;
    return true;
}

static void scene_file_job_bank_free(struct cache_entry *entry)
{
    struct batch_bank *bank = (struct batch_bank *)entry;
    hc_renderer_close(bank->renderer);
    hc_bank_data_free(&bank->data);
    pthread_mutex_destroy(&bank->turn);
}

const struct cache_kind batch_banks = {.size = sizeof(struct batch_bank),
                                       .no_memory = "no memory for a bank; free some memory",
                                       .init = bank_init,
                                       .has_key = bank_has_key,
                                       .load = batch_bank_load,
                                       .free = scene_file_job_bank_free};

/* Calls hc_render, one thread at a time. */
static bool bank_render(struct batch_bank *bank, const hc_render_job *jobs, int n, char *why, size_t cap)
{
    pthread_mutex_lock(&bank->turn);
    int error = hc_render(bank->renderer, jobs, sizeof *jobs, n, why, cap);
    pthread_mutex_unlock(&bank->turn);
    return error == HC_OK;
}

/* ---- jobs --------------------------------------------------------------------------------------- */

static bool outs_make(struct scene_file_job *m, int n_out)
{
    const size_t block = (size_t)m->stream.block;
    m->outs = calloc((size_t)n_out, sizeof *m->outs);
    m->out = malloc((size_t)n_out * block * sizeof *m->out);
    if (!m->outs || !m->out) return false;
    for (int o = 0; o < n_out; o++) m->outs[o] = m->out + (size_t)o * block;
    return true;
}

static bool open_stream(struct file_job *job, struct scene_file_job *m, struct path *path, char *why, size_t cap)
{
    const struct manifest_row *row = job->row;
    const struct scene_file_settings *settings = &job->batch->settings->moving;
    const hc_bank_data *data = &m->bank->data;
    int64_t n_frames = job->in.n_frames, block = INT64_MAX;
    /* A short file is a single block, with its tail. */
    if (n_frames >= 0) block = n_frames + data->n_taps + settings->path_options.step;
    if (!scene_file_path_finish(path, row->path, draw_number(row->seed, DRAW_PATH), settings, data, job->in.rate, job->n_in,
                            n_frames, why, cap))
        return false;
    if (!scene_file_stream_open(&m->stream, path, data, &settings->path_options, block, row->mask, why, cap)) return false;
    return outs_make(m, data->n_out) || message_write(why, cap, "no memory for a block of audio; use fewer --workers");
}

bool scene_file_job_open(struct file_job *job, const char *backend, char *why, size_t cap)
{
    struct bank_key key = {.rate = job->in.rate};
    struct path path;
    struct scene_file_job *m = job->moving = calloc(1, sizeof *m);
    snprintf(key.backend, sizeof key.backend, "%s", backend);
    if (!m) return message_write(why, cap, "no memory for a moving source; use fewer --workers");
    if (!scene_file_path_read(&path, job->row->path, &job->batch->settings->moving, key.rate, job->n_in, &key.mixes, why,
                          cap))
        return false;
    m->bank = cache_get(&job->batch->banks, job->row->mask, &key, why, cap);
    bool good = m->bank && open_stream(job, m, &path, why, cap);
    path_free(&path);
    if (!good) return false;
    job->n_out = m->bank->data.n_out;
    job->n_taps = m->bank->data.n_taps;
    return true;
}

void scene_file_job_close(struct file_job *job)
{
    struct scene_file_job *m = job->moving;
    if (!m) return;
    scene_file_stream_close(&m->stream);
    free(m->out);
    free(m->outs);
    if (m->bank) cache_release(&job->batch->banks, &m->bank->entry);
    free(m);
    job->moving = NULL;
}

/* Reads the next block. Returns false if the job needs none. */
static bool render_block_read(struct file_job *job, hc_render_job *render)
{
    struct scene_file_job *m = job->moving;
    struct scene_file_stream *stream = &m->stream;
    if (file_job_needs(job, stream->block) == 0) return false;
    if (job->n_queued == 0 && stream->n_done > 0) scene_file_stream_rewind(stream); /* another pass */
    m->n_in = (int)file_job_read(job, scene_file_stream_block(stream, 0), (int64_t)stream->stride, stream->block);
    m->n = (int)file_job_needs(job, stream->block);
    if (m->n == 0) return false; /* the job has failed, or its input was empty */
    if (m->n_in > m->n) m->n_in = m->n;
    if (!scene_file_stream_job(stream, m->n_in, m->n, m->outs, render)) {
        batch_stop(job->batch, "no memory for the steps of a path; use fewer --workers");
        return false;
    }
    job->n_queued += m->n;
    return true;
}

bool scene_file_jobs_convolve(struct file_job *const *jobs, int n)
{
    struct batch *batch = jobs[0]->batch;
    for (;;) {
        hc_render_job renders[BATCH_PIECE];
        struct file_job *busy[BATCH_PIECE];
        char why[MESSAGE_CAP];
        int n_busy = 0;
        for (int i = 0; i < n; i++)
            if (render_block_read(jobs[i], &renders[n_busy])) busy[n_busy++] = jobs[i];
        if (n_busy == 0 || atomic_load(&batch->stopped)) return n_busy == 0;
        if (!bank_render(busy[0]->moving->bank, renders, n_busy, why, sizeof why)) {
            batch_stop(batch, why);
            return false;
        }
        for (int i = 0; i < n_busy; i++) {
            struct scene_file_job *m = busy[i]->moving;
            file_job_accept(busy[i], m->out, m->stream.block, m->n);
            scene_file_stream_next(&m->stream, m->n_in, m->n);
        }
    }
}
