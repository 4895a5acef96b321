/* bench_choice - measures the table by which ladder_choose picks a rung, and writes it as a header. */
#include "bench_measure.h"

#include <string.h>

static const int taps_axis[] = {4, 16, 64, 96, 128, 256, 1024, 4096, 16384, 65536};
static const int frames_axis[] = {64, 512, 4096, 65536, 1 << 20, 1 << 22, 1 << 24};
static const int out_axis[] = {1, 8, 64, 512};

#define LENGTH(axis) ((int)(sizeof(axis) / sizeof *(axis)))
enum { SHARINGS = 3 };
static const long SAMPLES_MOST = 1L << 26;
static const long MASK_TAPS_MOST = 1L << 20; /* of all masks: the host transforms them in double                    */
static const double BEATEN = 6;              /* so many times slower than the best: not asked about more taps       */
static const double BUDGET_US = 3000;

struct table {
    int ns[SHARINGS][LENGTH(out_axis)][LENGTH(frames_axis)][LENGTH(taps_axis)][CHOICES];
};

static int row_measure(struct bench *b, struct table *table, int sharing, int out, int frame)
{
    unsigned wanted = CHOICE_ANY;
    for (int tap = 0; tap < LENGTH(taps_axis); tap++) {
        const struct shape shape = {taps_axis[tap], frames_axis[frame], out_axis[out], (enum sharing)sharing, false};
        const long masks = sharing == SHARED ? 1 : shape.channels;
        if (shape.frames * shape.channels > SAMPLES_MOST || masks * shape.taps > MASK_TAPS_MOST) continue;
        double us[CHOICES], best = 1e30;
        if (bench_shape(b, &shape, wanted, BUDGET_US, us) != 0) return -1;
        for (int i = 0; i < CHOICES; i++) {
            table->ns[sharing][out][frame][tap][i] = (int)(1e3 * us[i] + 0.5);
            if (us[i] > 0 && us[i] < best) best = us[i];
        }
        for (int i = 0; i < CHOICES; i++) /* the direct forms only fall further behind */
            if (i != OVERLAP_SAVE && us[i] > BEATEN * best) wanted &= ~(1u << i);
    }
    return 0;
}

static void axis_write(FILE *f, const char *name, const int *axis, int n)
{
    fprintf(f, "static const int choice_%s[] = {", name);
    for (int i = 0; i < n; i++) fprintf(f, "%s%d", i ? ", " : "", axis[i]);
    fprintf(f, "};\n");
}

static void ns_write(FILE *f, const int ns[CHOICES])
{
    fprintf(f, "{");
    for (int i = 0; i < CHOICES; i++) fprintf(f, "%s%d", i ? ", " : "", ns[i]);
    fprintf(f, "}");
}

static void table_print(FILE *f, const struct table *table, const char *gpu, const char *when,
                        const struct choice_probe *probes, int n_probes)
{
    fprintf(f,
            "/* Written by `haloconv bench kernels --write-choice kernels/choice_table.h` on %s. Nanoseconds of\n"
            " * few, register, tensor, overlap_save; 0: not measured. [sharing][outputs][frames][taps] */\n"
            "#define CHOICE_GPU \"%s\"\n",
            when, gpu);
    axis_write(f, "taps", taps_axis, LENGTH(taps_axis));
    axis_write(f, "frames", frames_axis, LENGTH(frames_axis));
    axis_write(f, "out", out_axis, LENGTH(out_axis));
    fprintf(f, "static const int choice_ns[%d][%d][%d][%d][CHOICES] = {\n", SHARINGS, LENGTH(out_axis),
            LENGTH(frames_axis), LENGTH(taps_axis));
    for (int s = 0; s < SHARINGS; s++) {
        fprintf(f, "    {\n");
        for (int o = 0; o < LENGTH(out_axis); o++) {
            fprintf(f, "        {\n");
            for (int i = 0; i < LENGTH(frames_axis); i++) {
                fprintf(f, "            {");
                for (int t = 0; t < LENGTH(taps_axis); t++) {
                    if (t) fprintf(f, t % 2 ? ", " : ",\n             ");
                    ns_write(f, table->ns[s][o][i][t]);
                }
                fprintf(f, "},\n");
            }
            fprintf(f, "        },\n");
        }
        fprintf(f, "    },\n");
    }
    fprintf(f, "};\nstatic const struct choice_probe choice_probes[] = {\n");
    for (int i = 0; i < n_probes; i++) {
        static const char *const sharing[] = {"SHARED", "OWN", "BANK"};
        fprintf(f, "    {%d, %ld, %d, %s, ", probes[i].n_taps, probes[i].n_frames, probes[i].n_out,
                sharing[probes[i].sharing]);
        ns_write(f, probes[i].ns);
        fprintf(f, "},\n");
    }
    fprintf(f, "};\n");
}

int bench_choice_write(struct bench *b, const char *path, const char *gpu, const char *when,
                       const struct choice_probe *probes, int n_probes)
{
    static struct table table;
    memset(&table, 0, sizeof table);
    for (int sharing = 0; sharing < SHARINGS; sharing++)
        for (int out = sharing == SHARED ? 0 : 1; out < LENGTH(out_axis); out++) /* one output: SHARED says it all */
            for (int frame = 0; frame < LENGTH(frames_axis); frame++)
                if (row_measure(b, &table, sharing, out, frame) != 0) return -1;
    FILE *f = fopen(path, "w");
    if (f) table_print(f, &table, gpu, when, probes, n_probes);
    if (!f || ferror(f) | fclose(f)) return bench_fail(b, "%s: cannot be written", path);
    return 0;
}
