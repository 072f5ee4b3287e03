/* calibration/score/predict.h - step time and memory of measured rows. */
#ifndef CALIBRATION_SCORE_PREDICT_H
#define CALIBRATION_SCORE_PREDICT_H

#include "calibration/rows/convert.h"
#include "sim/engine/simulate.h"

struct run_prediction {
    double step_s, memory_bytes;
    bool fits;
    double step_low_s, step_high_s; /* 90 % interval */
    struct time_parts time;
};

/* out[i] is the prediction of cases[i]; zero when the case is skipped. Rows of one system and model
 * share an evaluator's caches, so predict many at once. The same on any number of jobs
 * (threads). */
void runs_predict(const struct run_case *cases, int count, int jobs, struct run_prediction *out);

#endif
