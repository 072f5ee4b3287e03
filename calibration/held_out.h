/* calibration/held_out.h - held-out measurements of whole steps and layers, which no table and
 * no constant is made from, beside the finished file's predictions of them. */
#ifndef CALIBRATION_HELD_OUT_H
#define CALIBRATION_HELD_OUT_H

#include "calibration/host_rank.h"

#include <jansson.h>

enum { MOST_HELD_OUT = 8 };

/* A step of a model on one device, and one of its layers: the time that each layer adds when there
 * are twice as many. */
struct held_out {
    const struct model *model; /* in the arena */
    const char *layout;        /* static text */
    double step_s, layer_s;
};
struct held_out_steps {
    struct held_out at[MOST_HELD_OUT];
    int count;
};

/* Medians of bare steps, on a host less what others took of the core, of shapes that no grid of
 * host_shapes.h has; about `seconds` in all. Means over the ranks, each of which runs the whole by
 * itself; all call it together. */
bool held_out_measure(struct host_rank *host, const struct stack *stack, bool is_quick,
                      double seconds, struct arena *arena, struct held_out_steps *out,
                      struct err *err);

/* Measured and predicted by a cluster file's object: [{ "model", "layout", "step_s",
 * "predicted_step_s", "layer_s", "predicted_layer_s" }]. NULL with err. The caller frees. */
json_t *held_out_json(const struct held_out_steps *steps, enum precision precision,
                      const json_t *cluster, struct err *err);

#endif
