/* calibration/measure/held_out.h - measures whole steps and layers that are held out: no table or
 * constant is fitted to them. Then compares them with the finished cluster file's predictions. */
#ifndef CALIBRATION_MEASURE_HELD_OUT_H
#define CALIBRATION_MEASURE_HELD_OUT_H

#include "calibration/measure/host_rank.h"
#include "calibration/measure/host_shapes.h"

#include <jansson.h>

enum { MOST_HELD_OUT = 8 };

/* A model whose steps are held out, and the plan with which it runs. */
struct held_out_row {
    int hidden, head_dim, seq, layers, batch, vocab;
    bool is_llama, is_quick;
    const char *layout; /* static text */
};
/* Writes the rows that a calibration measures to `rows`, which has MOST_HELD_OUT; returns how many.
 * Their sizes are between those of host_shapes_grid. */
int held_out_rows(enum host_grid grid, bool is_quick, struct held_out_row *rows);

/* Times of a step of a model on one device, and of one layer, which is the time per added layer
 * when the number of layers is doubled. */
struct held_out {
    const struct model *model; /* in the arena */
    const char *layout;        /* static text */
    double step_s, layer_s;
};
struct held_out_steps {
    struct held_out at[MOST_HELD_OUT];
    int count;
};

/* Times steps of at most MOST_HELD_OUT rows, for about `seconds` in all. On a host, time stolen by
 * other processes is subtracted. Each rank runs all steps by itself and takes medians; the results
 * are means over the ranks, which all call it together. */
bool held_out_measure(struct host_rank *host, const struct stack *stack,
                      const struct held_out_row *rows, int count, double seconds,
                      struct arena *arena, struct held_out_steps *out, struct err *err);

/* Returns the measured steps with their predictions by `cluster`, the object of a cluster file: [{
 * "model", "layout", "step_s", "predicted_step_s", "layer_s", "predicted_layer_s" }]. On failure it
 * is NULL and err is set. The caller frees it. */
json_t *held_out_json(const struct held_out_steps *steps, enum precision precision,
                      const json_t *cluster, struct err *err);

#endif
