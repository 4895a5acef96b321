#include "moving_job.h"

#include "draw.h"

#include <stdlib.h>
#include <string.h>

static bool outs_make(struct moving_job *m, int n_out)
{
    const size_t block = (size_t)m->stream.block;
    m->outs = calloc((size_t)n_out, sizeof *m->outs);
    m->out = malloc((size_t)n_out * block * sizeof *m->out);
    if (!m->outs || !m->out) return false;
    for (int o = 0; o < n_out; o++) m->outs[o] = m->out + (size_t)o * block;
    return true;
}

static bool open_stream(struct file_job *job, struct moving_job *m, char *why, size_t cap)
{
    const struct manifest_row *row = job->row;
    const struct moving_settings *settings = job->batch->moving;
    const hc_bank_data *data = &m->bank->data;
    struct path path;
    int64_t n_frames = job->in.n_frames, block = INT64_MAX;
    /* A short file has a shorter block: the whole of it, with its tail. */
    if (n_frames >= 0) block = n_frames + data->n_taps + settings->path_options.step;
    if (!moving_path_open(&path, row->path, draw_number(row->seed, DRAW_PATH), settings, data, job->in.rate, job->n_in,
                          n_frames, why, cap))
        return false;
    if (!moving_stream_open(&m->stream, &path, data, &settings->path_options, block, row->mask, why, cap)) return false;
    return outs_make(m, data->n_out) || message_write(why, cap, "no memory for a block of audio; use fewer --workers");
}

bool moving_job_open(struct file_job *job, const char *backend, char *why, size_t cap)
{
    struct moving_job *m = job->moving = calloc(1, sizeof *m);
    if (!m) return message_write(why, cap, "no memory for a moving source; use fewer --workers");
    m->bank = bank_cache_take(&job->batch->banks, job->row->mask, backend, job->in.rate, why, cap);
    if (!m->bank || !open_stream(job, m, why, cap)) return false;
    job->n_out = m->bank->data.n_out;
    job->n_taps = m->bank->data.n_taps;
    return true;
}

void moving_job_close(struct file_job *job)
{
    struct moving_job *m = job->moving;
    if (!m) return;
    moving_stream_close(&m->stream);
    free(m->out);
    free(m->outs);
    bank_cache_give_back(&job->batch->banks, m->bank);
    free(m);
    job->moving = NULL;
}

/* Reads the next block. Returns false if the job needs none. */
static bool read_block(struct file_job *job, hc_render_job *render)
{
    struct moving_job *m = job->moving;
    struct moving_stream *stream = &m->stream;
    if (file_job_needs(job, stream->block) == 0) return false;
    if (job->n_queued == 0 && stream->n_done > 0) moving_stream_rewind(stream); /* another pass */
    m->n_in = (int)file_job_read(job, moving_stream_block(stream, 0), (int64_t)stream->stride, stream->block);
    m->n = (int)file_job_needs(job, stream->block);
    if (m->n == 0) return false; /* the job has failed, or its input was empty */
    if (m->n_in > m->n) m->n_in = m->n;
    if (!moving_stream_job(stream, m->n_in, m->n, m->outs, render)) {
        batch_stop(job->batch, "no memory for the steps of a path; use fewer --workers");
        return false;
    }
    job->n_queued += m->n;
    return true;
}

bool moving_jobs_convolve(struct file_job *const *jobs, int n)
{
    struct batch *batch = jobs[0]->batch;
    for (;;) {
        hc_render_job renders[BATCH_PIECE];
        struct file_job *busy[BATCH_PIECE];
        char why[MESSAGE_CAP];
        int n_busy = 0;
        for (int i = 0; i < n; i++)
            if (read_block(jobs[i], &renders[n_busy])) busy[n_busy++] = jobs[i];
        if (n_busy == 0 || atomic_load(&batch->stopped)) return n_busy == 0;
        if (!cached_bank_render(busy[0]->moving->bank, renders, n_busy, why, sizeof why)) {
            batch_stop(batch, why);
            return false;
        }
        for (int i = 0; i < n_busy; i++) {
            struct moving_job *m = busy[i]->moving;
            file_job_take(busy[i], m->out, m->stream.block, m->n);
            moving_stream_next(&m->stream, m->n_in, m->n);
        }
    }
}
