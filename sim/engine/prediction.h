/* sim/engine/prediction.h - the predicted step time, memory and rates of a plan. */
#ifndef SIM_ENGINE_PREDICTION_H
#define SIM_ENGINE_PREDICTION_H

#include "sim/engine/time_parts.h"
#include "sim/memory/stage_memory.h"

#include <stdbool.h>

struct prediction {
    bool fits;
    double step_s;
    double step_low_s, step_high_s; /* 90 % interval (interval.h) */
    double tokens_per_s;
    double mfu, hfu;
    double peak_memory_bytes;
    double memory_low_bytes, memory_high_bytes; /* 90 % interval */
    double p_oom;                               /* probability of running out of memory */
    int peak_stage;
    int busiest_stage;
    int num_microbatches;
    struct time_parts time;
    int num_stages;
    /* the evaluator owns them and overwrites them in its next prediction */
    struct stage_memory *stages;
};

#endif
