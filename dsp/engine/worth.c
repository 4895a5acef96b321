#include "worth.h"

static const double start_ns = 0.4e9;                   /* of a GPU */
static const double least_ns = 2e9;                     /* of the CPU on a file, for a GPU to be thought of */
static const double idle_ns = 0.02e9, busy_ns = 0.33e9; /* of the CPU in a second of audio */

static double frame_ns(const struct worth *w, const struct plan_costs *costs)
{
    struct plan plan;
    plan_choose(&plan, costs, &w->shape, w->method);
    return plan_cost_ns(&plan, costs, &w->shape);
}

static double cpu_frame_ns(const struct worth *w, const struct plan_costs *cpu)
{
    return frame_ns(w, cpu) / w->n_processors;
}

bool worth_a_look(const struct worth *w, const struct plan_costs *cpu)
{
    double ns = cpu_frame_ns(w, cpu);
    return w->n_frames > 0 ? ns * (double)w->n_frames >= least_ns : ns * w->rate >= idle_ns;
}

bool worth_the_gpu(const struct worth *w, const struct plan_costs *cpu, const struct plan_costs *gpu, bool measured)
{
    double cpu_ns = cpu_frame_ns(w, cpu), gpu_ns = frame_ns(w, gpu);
    if (w->n_frames > 0) return gpu_ns * (double)w->n_frames + start_ns < cpu_ns * (double)w->n_frames;
    return gpu_ns < cpu_ns && (measured || cpu_ns * w->rate > busy_ns);
}
