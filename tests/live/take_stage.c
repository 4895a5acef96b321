/* take_stage - takes by host/measure/take.h: plays a sound on each output in turn.
 *
 *   take_stage API SERVER OUTPUTS INPUTS N_OUT N_IN PLAY.f32 RECORD.f32 N_FRAMES
 *
 * SERVER, OUTPUTS and INPUTS may be "-", for NULL. RECORD becomes raw floats [N_OUT][N_IN][N_FRAMES]. A take that fails
 * is an error line, and the status 1. Prints `begun` once a take has recorded something.
 */
#include "host/measure/take.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *why)
{
    fprintf(stderr, "take_stage: %s\n", why);
    return 1;
}

static float *read_sound(const char *path, long *n)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *n = ftell(file) / (long)sizeof(float);
    rewind(file);
    float *sound = calloc((size_t)*n, sizeof *sound);
    if (sound && fread(sound, sizeof *sound, (size_t)*n, file) != (size_t)*n) *n = 0;
    fclose(file);
    return sound;
}

static void say_begun(void *data, int64_t frames)
{
    bool *is_said = data;
    if (*is_said) return;
    *is_said = true;
    printf("begun at %ld\n", (long)frames);
    fflush(stdout);
}

static const char *text(const char *arg)
{
    return strcmp(arg, "-") == 0 ? NULL : arg;
}

int main(int argc, char **argv)
{
    char why[1024] = "";
    bool is_said = false;
    long n_play = 0;
    if (argc != 10) return fail("want API SERVER OUTPUTS INPUTS N_OUT N_IN PLAY.f32 RECORD.f32 N_FRAMES");
    struct take_settings settings = {.api = argv[1],
                                     .server = text(argv[2]),
                                     .output_device = text(argv[3]),
                                     .input_device = text(argv[4]),
                                     .n_outputs = atoi(argv[5]),
                                     .n_inputs = atoi(argv[6])};
    int64_t n = atol(argv[9]);
    float *play = read_sound(argv[7], &n_play), *sound = calloc((size_t)(n * settings.n_inputs), sizeof *sound);
    float **record = calloc((size_t)settings.n_inputs, sizeof *record);
    FILE *file = fopen(argv[8], "wb");
    if (!play || !sound || !record || !file) return fail("no memory, or no file");
    for (int i = 0; i < settings.n_inputs; i++) record[i] = sound + i * n;
    struct take *take = take_open(&settings, why, sizeof why);
    bool good = take != NULL;
    for (int output = 0; good && output < settings.n_outputs; output++) {
        good = take_play(take, output, play, n_play, record, n, say_begun, &is_said, why, sizeof why);
        fwrite(sound, sizeof *sound, (size_t)(n * settings.n_inputs), file);
    }
    take_close(take);
    fclose(file);
    free(play);
    free(sound);
    free(record);
    return good ? 0 : fail(why);
}
