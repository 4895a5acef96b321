/* tensors - learns an unknown filter by gradient descent, from signals and their convolutions with that filter.
 *
 *   cc tensors.c $(pkg-config --cflags --libs haloconv) -lm -o tensors
 *   ./tensors [OUTPUT]        OUTPUT gets the raw floats of the filter that was learnt
 *
 *   x [8 items, 1 channel, FRAMES] --> convolve with h --> y --> minus the target --> gy
 *                                           ^                                         |
 *                          h -= step * gh --+--------------- gradient h <-------------+
 *
 * The eight items share the filter, so its gradient is the sum over them. Each operation is planned once and run many
 * times. On a GPU ("cuda") all pointers are to its memory, a run needs a workspace there, and puts its work into a stream.
 */
#include <haloconv.h>
#include <haloconv_tensors.h>

#include <math.h>
#include <stdio.h>

enum { ITEMS = 8, FRAMES = 4096, TAPS = 100, STEPS = 60 };

static char why[256];

static hc_tensor_plan *plan_of(const hc_tensors *t, int op)
{
    hc_tensor_plan *plan;
    size_t bytes; /* size of the workspace; 0 on the CPU */
    if (hc_tensor_plan_open(t, op, &plan, &bytes, why, sizeof why) != HC_OK) fprintf(stderr, "%s\n", why);
    return plan; /* NULL after a failure */
}

static int run_plan(const hc_tensor_plan *plan, const float *a, const float *b, float *out)
{
    hc_tensor_data data = {.size = sizeof data, .a = a, .b = b, .out = out};
    int code = hc_tensor_plan_run(plan, &data, why, sizeof why);
    if (code != HC_OK) fprintf(stderr, "%s\n", why);
    return code != HC_OK;
}

int main(int argc, char **argv)
{
    static float x[ITEMS][FRAMES], target[ITEMS][FRAMES], y[ITEMS][FRAMES], wanted[TAPS], h[TAPS], gh[TAPS];
    double power = 0;
    unsigned seed = 1;
    for (int i = 0; i < ITEMS * FRAMES; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i / FRAMES][i % FRAMES] = (float)(seed >> 8) / 8388608.0f - 1.0f;
        power += (double)x[i / FRAMES][i % FRAMES] * (double)x[i / FRAMES][i % FRAMES];
    }
    for (int k = 0; k < TAPS; k++) wanted[k] = (float)(0.5 * cos(0.2 * k) * exp(-6.9 * k / TAPS));

    hc_tensors t = {.size = sizeof t, /* fields not set have their default: "cpu", dense, one filter for all */
                    .mode = HC_CAUSAL,
                    .n_batch = ITEMS,
                    .n_channels = 1,
                    .n_frames = FRAMES,
                    .n_taps = TAPS};
    hc_tensor_plan *convolve = plan_of(&t, HC_CONVOLVE), *gradient = plan_of(&t, HC_GRADIENT_H);
    if (run_plan(convolve, x[0], wanted, target[0])) return 1;

    double first = 0, error = 0;
    for (int step = 0; step < STEPS; step++) {
        if (run_plan(convolve, x[0], h, y[0])) return 1;
        error = 0;
        for (int i = 0; i < ITEMS * FRAMES; i++) {
            float *gy = &y[i / FRAMES][i % FRAMES]; /* the gradient of half the squared error */
            *gy -= target[i / FRAMES][i % FRAMES];
            error += (double)*gy * (double)*gy;
        }
        if (step == 0) first = error;
        if (run_plan(gradient, y[0], x[0], gh)) return 1;
        for (int k = 0; k < TAPS; k++) h[k] -= (float)(gh[k] / power);
    }
    printf("%d steps: the error fell by %.0f dB\n", STEPS, 10 * log10(first / error));
    hc_tensor_plan_close(convolve);
    hc_tensor_plan_close(gradient);

    FILE *file = argc > 1 ? fopen(argv[1], "wb") : NULL;
    if (argc > 1 && (!file || fwrite(h, sizeof h, 1, file) != 1 || fclose(file) != 0)) return perror(argv[1]), 1;
    return 0;
}
