/* The estimates of the time that is left, with a clock of the test's own. */
#include "check.h"
#include "host/batch/batch_run.h"
#include "host/batch/file_job.h"
#include "host/files/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { P = 1 << 16, TOGETHER = 4 }; /* frames of a partition; partitions of a block */

/* Seconds of a block of a stereo file: what the engine does, counted partition by partition. */
static double block_s(int64_t block, int64_t n_in, int64_t n_taps)
{
    const double transform_s = 2 * P * 3e-9, product_s = 2 * P * 0.2e-9, sample_s = 2 * P * 3e-9;
    double s = 0;
    for (int64_t b = block * TOGETHER; b < (block + 1) * TOGETHER; b++) {
        s += transform_s + sample_s;
        if (b * P < n_in) s += transform_s + sample_s;
        for (int64_t p = 0; p * P < n_taps; p++) s += b >= p && (b - p) * P < n_in ? product_s : 0;
    }
    return s;
}

static struct progress_work stereo(int64_t n_in, int n_taps, int64_t end)
{
    const hc_info info = {.queue_depth = 1, .partition = P, .backend = "cpu", .method = "fft"};
    return progress_work_make(&info, 2, 2, 2, n_in, n_taps, end);
}

/* From a tenth of the convolution on, after a mask that takes long to prepare, and with threads that take long to
 * start. */
static void the_time_left_is_known_after_a_tenth(const char *unused)
{
    static const struct {
        int64_t n_in;
        int n_taps;
        bool tail;
        double mask_s, start_s;
    } cases[] = {{28800000, 144000, true, 0, 0},     {28800000, 144000, true, 3, 0.02},
                 {28800000, 2880000, true, 1, 0.05}, {28800000, 28800000, true, 2, 0.2},
                 {28800000, 28800000, false, 2, 0},  {14400000, 28800000, true, 0.3, 0},
                 {4800000, 28800000, true, 0, 0},    {28800000, 4800000, false, 0.5, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t n_in = cases[i].n_in, end = n_in + (cases[i].tail ? cases[i].n_taps - 1 : 0);
        int64_t n_blocks = (end - 1) / (TOGETHER * P) + 1;
        double start = 100 + cases[i].mask_s, finish = start + cases[i].start_s, now = start + cases[i].start_s;
        for (int64_t b = 0; b < n_blocks; b++) finish += block_s(b, n_in, cases[i].n_taps);
        struct progress progress;
        progress_start(&progress, 48000, stereo(n_in, cases[i].n_taps, end), 100, start);
        for (int64_t b = 0; b < n_blocks; b++) {
            now += block_s(b, n_in, cases[i].n_taps);
            double left = progress_left(&progress, (b + 1) * TOGETHER * P, now), want = finish - now;
            double begun = start + cases[i].start_s, done = (now - begun) / (finish - begun);
            if (done < 0.1 || (left == -1 && done < 0.13) || want < 0.02 * (finish - start)) continue;
            check(fabs(left - want) <= 0.25 * want, "case %zu, block %lld of %lld: %g s left, in truth %g", i,
                  (long long)b, (long long)n_blocks, left, want);
        }
    }
}

/* The work ends with the last frame, also if blocks reach beyond it, and an unknown end has no estimate. */
static void the_work_ends_with_the_last_frame(const char *unused)
{
    struct progress_work work = stereo(100000, 5000, 104999);
    check(progress_work_to(&work, 0) == 0, "%g", progress_work_to(&work, 0));
    double before = 0, all = progress_work_to(&work, 104999);
    for (int64_t frame = 1; frame <= 104999; frame += 1111) {
        double to = progress_work_to(&work, frame);
        check(to > before && to <= all, "frame %lld: %g after %g, in all %g", (long long)frame, to, before, all);
        before = to;
    }
    check(progress_work_to(&work, 1 << 20) == all, "%g, in all %g", progress_work_to(&work, 1 << 20), all);
    struct progress progress;
    progress_start(&progress, 48000, work, 0, 1);
    check(progress_left(&progress, 10000, 2) == -1, "an estimate from the first block");
    check(progress_left(&progress, 1 << 20, 3) == 0, "time is left after the end");
    progress_start(&progress, 48000, stereo(-1, 5000, 0), 0, 1);
    for (int s = 2; s < 5; s++)
        check(progress_left(&progress, (int64_t)s << 20, s) == -1, "an end that is unknown is known after %d s", s);
}

void *batch_worker(void *data) /* the test does the work */
{
    return data;
}

/* A batch begins with its longest files: by their number, the first tenth of the work would promise a multiple of the
 * time. Rows that an earlier run made are not work. */
static void a_batch_counts_bytes_not_files(const char *unused)
{
    enum { ROWS = 50, MASK = 1000000 };
    char folder[] = "/tmp/progress_test.XXXXXX", paths[ROWS + 1][64];
    struct manifest_row rows[ROWS] = {{0}};
    struct manifest manifest = {.rows = rows, .n = ROWS};
    const struct batch_settings settings = {.n_shards = 1};
    struct batch batch = {.manifest = &manifest, .settings = &settings, .hashed = ""};
    double row_s[ROWS]; /* the seconds of a row */
    check(mkdtemp(folder), "no folder");
    for (int i = 0; i <= ROWS; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d", folder, i);
        FILE *file = fopen(paths[i], "w");
        int64_t bytes = i == ROWS ? MASK : i % 10 == 3 ? 100000000 : 3000000 + 1000 * i; /* holes: nothing is stored */
        check(file && ftruncate(fileno(file), bytes) == 0, "%s", paths[i]);
        fclose(file);
        if (i == ROWS) break;
        row_s[i] = (double)(bytes + MASK / 2) * 1e-7;
        rows[i] = (struct manifest_row){
            .input = paths[i], .mask = paths[ROWS], .output = paths[i], .length_s = INFINITY};
    }
    check(batch_plan_make(&batch), "%s", batch.why);
    struct progress_rate rate = {0};
    double left = 0, now = 7; /* the first mask takes 7 seconds */
    check(batch_left(&batch, &rate, now) == -1, "an estimate before the first file");
    for (int i = 0; i < ROWS; i++) left += row_s[i];
    for (int i = 0; i < ROWS; i++) {
        const struct manifest_row *row = batch.plan.order[i];
        int64_t work = batch_row_work(&batch, row);
        bool is_old = i % 7 == 6;
        left -= row_s[row - rows];
        now += is_old ? 0 : row_s[row - rows];
        batch_count(&batch, COUNT_WORK_LEFT, -work);
        batch_count(&batch, COUNT_WORK_DONE, is_old ? 0 : work);
        double said = batch_left(&batch, &rate, now);
        check(fabs(said - left) <= 0.01 * left + 1e-6 || (i == 0 && said == -1),
              "after file %d: %g s left, in truth %g", i, said, left);
    }
    check(batch_left(&batch, &rate, now) == 0, "time is left after the end");
    for (int i = 0; i <= ROWS; i++) unlink(paths[i]);
    rmdir(folder);
    batch_free(&batch);
}

/* Writes a mono WAV file of 16 bits: frames that are not 0, then a hole. */
static void put_wav(const char *path, uint32_t n_frames)
{
    const uint32_t bytes = 2 * n_frames, rate = 48000;
    const uint32_t header[] = {0x46464952, 36 + bytes, 0x45564157,   0x20746d66, 16,    1 | 1 << 16,
                               rate,       2 * rate,   2 | 16 << 16, 0x61746164, bytes, 0x10001000};
    FILE *file = fopen(path, "w");
    check(file && fwrite(header, sizeof header, 1, file) == 1 && ftruncate(fileno(file), 44 + (off_t)bytes) == 0, "%s",
          path);
    fclose(file);
}

/* With noise and a level, a long file is measured twice, and then written. */
static void each_pass_of_a_long_file_is_work(const char *unused)
{
    enum { FRAMES = 17 << 20, BLOCK = 1 << 20, PASSES = 3 };
    char folder[] = "/tmp/progress_test.XXXXXX", x[64], h[64];
    check(mkdtemp(folder), "no folder");
    snprintf(x, sizeof x, "%s/x.wav", folder);
    snprintf(h, sizeof h, "%s/h.wav", folder);
    put_wav(x, FRAMES);
    put_wav(h, 2);
    struct manifest_row row = {.input = x,
                               .mask = h,
                               .output = "y.wav",
                               .length_s = INFINITY,
                               .early_ms = INFINITY,
                               .gain = 1,
                               .noise = h,
                               .level = LEVEL_RMS};
    struct manifest manifest = {.rows = &row, .n = 1};
    const struct batch_settings settings = {.folder = folder, .n_shards = 1};
    struct batch batch = {.manifest = &manifest, .settings = &settings, .hashed = ""};
    struct file_job job;
    float *block = calloc(BLOCK, sizeof *block);
    for (int i = 0; block && i < BLOCK; i++) block[i] = 0.5f;
    const bool finds_t30 = false;
    check(block && batch_plan_make(&batch), "%s", batch.why);
    cache_open(&batch.masks, &batch_masks, &finds_t30, 1 << 20);
    check(file_job_open(&job, &batch, &row, "cpu"), "the file is not opened");
    for (int pass = 0; pass < PASSES - 1; pass++) {
        for (int n = 0; n < FRAMES; n += BLOCK) {
            file_job_accept(&job, block, BLOCK, BLOCK);
            double done = (double)atomic_load(&batch.counts[COUNT_WORK_DONE]) / (double)batch_row_work(&batch, &row);
            double want = (pass + (n + BLOCK) / (FRAMES + 1.0)) / PASSES;
            check(fabs(done - want) < 1e-6, "pass %d: %g of the work, want %g", pass, done, want);
        }
        check(job.stage == JOB_MEASURES && file_job_next_pass(&job), "pass %d is the last one", pass);
    }
    check(job.stage == JOB_WRITES, "there is one more pass");
    file_job_close(&job);
    check(atomic_load(&batch.counts[COUNT_WORK_LEFT]) == 0, "work is left");
    cache_close(&batch.masks);
    batch_free(&batch);
    free(block);
    unlink(x);
    unlink(h);
    rmdir(folder);
}

int main(void)
{
    static const struct test tests[] = {
        TEST(the_time_left_is_known_after_a_tenth, false),
        TEST(the_work_ends_with_the_last_frame, false),
        TEST(a_batch_counts_bytes_not_files, false),
        TEST(each_pass_of_a_long_file_is_work, false),
    };
    return check_main("progress", tests, sizeof tests / sizeof *tests);
}
