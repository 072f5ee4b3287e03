/* calibration/score/predict.h - predicts step time and memory of measured rows. */
#ifndef CALIBRATION_SCORE_PREDICT_H
#define CALIBRATION_SCORE_PREDICT_H

#include "calibration/rows/convert.h"
#include "sim/engine/simulate.h"

struct run_prediction {
    double step_s;
    double memory_bytes; /* peak of the stage, and of the kind, that the run's log shows */
    double peak_bytes;   /* peak of any stage, as the GPU must hold it */
    bool fits;
    double step_low_s, step_high_s; /* 90 % interval */
    struct time_parts time;
};

/* out[i] is the prediction of cases[i]; zero if the case is skipped. Rows of one system and model
 * share an evaluator's caches, so it is faster to predict many at once. The result does not depend
 * on the number of threads, `jobs`. */
void runs_predict(const struct run_case *cases, int count, int jobs, struct run_prediction *out);

#endif
