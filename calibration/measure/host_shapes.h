/* calibration/measure/host_shapes.h - the models that are trained to time their ops. */
#ifndef CALIBRATION_MEASURE_HOST_SHAPES_H
#define CALIBRATION_MEASURE_HOST_SHAPES_H

#include "base/arena.h"
#include "models/model.h"

/* Number of layers, enough that a layer's weights have left a core's cache before their next
 * use. */
enum { HOST_SHAPE_LAYERS = 4 };

/* A shape to measure: a model, or a tensor rank's share of one, that one rank runs. */
struct host_shape {
    struct model model;
    bool is_unfused; /* attention is not fused */
};

struct host_shapes {
    struct host_shape *at;
    int count;
    int num_own; /* number of shapes of the user's model, which come last */
};

/* The index of the i-th shape to measure: first the shapes of the user's model, then the grid in
 * strides, so that the first few include small and large shapes. */
int host_shapes_turn(const struct host_shapes *shapes, int i);

/* Grids of sizes of models that train on a host's core (hidden 64 to 1024) or on a GPU (768 to
 * 12,288). */
enum host_grid { GRID_CORE, GRID_GPU };

/* A GPT or Llama with the given widths; layers, vocabulary, batch and name are not set. */
struct model host_shapes_model(bool is_llama, int hidden, int head_dim, int seq);

/* The grid's shapes, fewer if `is_quick`. They are in the arena. */
struct host_shapes host_shapes_grid(enum host_grid grid, bool is_quick, struct arena *arena);

/* Adds the shapes of a model on up to `num_ranks` tensor ranks, for microbatches of 1 to 4. */
void host_shapes_add(struct host_shapes *shapes, const struct model *model, int num_ranks,
                     struct arena *arena);

#endif
