/* plan_report - the plan for an engine, as text and as JSON, and the size from which a GPU is cheaper. Opens no device,
 * so that it ends quickly. */
#ifndef PLAN_REPORT_H
#define PLAN_REPORT_H

#include "dsp/haloconv.h"
#include "host/message.h"

#include <jansson.h>
#include <stdbool.h>

struct plan_report {
    bool has_plan;
    char why[MESSAGE_CAP];    /* the reason if there is no plan */
    hc_info plan;
    bool knows_gpu;           /* the GPU is compared: this build has CUDA, and the plan is for a live session */
    bool gpu_measured;        /* the costs of the GPU and of the CPU were measured on this machine */
    int from_channels;        /* channels, with a response each, from which a GPU is cheaper; 0: none up to 4096      */
    int from_matrix;          /* inputs and outputs of a matrix from which a GPU is cheaper; 0: none */
};

void plan_report_make(struct plan_report *report, const hc_config *config);
void plan_report_print(const struct plan_report *report, int rate);
json_t *plan_report_json(const struct plan_report *report);

#endif
