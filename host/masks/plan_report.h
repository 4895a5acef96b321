/* plan_report - the plan for an engine, in words and as JSON, and from what size on a GPU would be cheaper. No device
 * is touched: the answer comes at once. */
#ifndef PLAN_REPORT_H
#define PLAN_REPORT_H

#include "dsp/haloconv.h"
#include "host/message.h"

#include <jansson.h>
#include <stdbool.h>

struct plan_report {
    bool has_plan;
    char why[MESSAGE_CAP];    /* it has none */
    hc_info plan;
    bool knows_gpu;           /* this build can do CUDA, and there is a deadline */
    bool gpu_measured;        /* its costs, and the CPU's, are those of this machine */
    int from_channels;        /* so many channels with a response each are cheaper on a GPU; 0: no number up to 4096 */
    int from_matrix;          /* so large a matrix */
};

void plan_report_make(struct plan_report *report, const hc_config *config);
void plan_report_print(const struct plan_report *report, int rate);
json_t *plan_report_json(const struct plan_report *report);

#endif
