/* cli/input/slice.h - cuts a plan down to the available ranks. */
#ifndef CLI_INPUT_SLICE_H
#define CLI_INPUT_SLICE_H

#include "cli/input/setup.h"

/* Cuts the setup's plan to --ranks ranks. Tensor sizes on each rank are unchanged, as tensor ranks,
 * microbatches and layers per chunk are kept. First the number of stages is reduced, then the
 * number of replicas. The model keeps the layers of the remaining stages. False (ERR_USAGE) when
 * the number of tensor ranks does not divide the number of ranks. */
bool slice_plan(const struct options *options, struct setup *setup, struct err *err);

#endif
