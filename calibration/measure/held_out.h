/* calibration/measure/held_out.h - held-out measurements of whole steps and layers, which no table
 * and no constant is fitted on, beside the finished file's predictions of them. */
#ifndef CALIBRATION_MEASURE_HELD_OUT_H
#define CALIBRATION_MEASURE_HELD_OUT_H

#include "calibration/measure/host_rank.h"

#include <jansson.h>

enum { MOST_HELD_OUT = 8 };

/* A step of a model on one device, and one layer: the time per added layer when their number is
 * doubled. */
struct held_out {
    const struct model *model; /* in the arena */
    const char *layout;        /* static text */
    double step_s, layer_s;
};
struct held_out_steps {
    struct held_out at[MOST_HELD_OUT];
    int count;
};

/* Times steps of shapes that are in no grid of host_shapes.h, for about `seconds` in all; on a
 * host, time stolen by other processes is subtracted. Each rank runs the whole by itself and takes
 * medians; the results are means over the ranks, which all call it together. */
bool held_out_measure(struct host_rank *host, const struct stack *stack, bool is_quick,
                      double seconds, struct arena *arena, struct held_out_steps *out,
                      struct err *err);

/* Measured steps and predictions by a cluster file's object: [{ "model", "layout", "step_s",
 * "predicted_step_s", "layer_s", "predicted_layer_s" }]. NULL with err. The caller frees. */
json_t *held_out_json(const struct held_out_steps *steps, enum precision precision,
                      const json_t *cluster, struct err *err);

#endif
