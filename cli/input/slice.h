/* cli/input/slice.h - a part of a plan that is small enough for the available ranks. */
#ifndef CLI_INPUT_SLICE_H
#define CLI_INPUT_SLICE_H

#include "cli/input/setup.h"

/* Cuts the setup's plan to --ranks ranks, whose shapes stay those of the whole plan. Tensor ranks,
 * microbatches and layers per chunk are kept; the number of stages is reduced first, then that of
 * replicas, and the model keeps the layers of the remaining stages. False (ERR_USAGE) when there
 * are more tensor ranks than ranks, or they do not divide them. */
bool slice_plan(const struct options *options, struct setup *setup, struct err *err);

#endif
