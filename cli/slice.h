/* cli/slice.h - a part of a plan that is small enough for the ranks at hand. */
#ifndef CLI_SLICE_H
#define CLI_SLICE_H

#include "cli/setup.h"

/* Cuts the setup's plan to --ranks ranks, each with the shapes that it has in the whole: tensor
 * ranks, microbatches and layers of a chunk stay; there are fewer stages, then fewer replicas, and
 * the model has the layers of the stages that are left. False (ERR_USAGE) when the tensor ranks
 * alone are more, or do not divide the ranks. */
bool slice_plan(const struct options *options, struct setup *setup, struct err *err);

#endif
