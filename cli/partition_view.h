/* cli/partition_view.h - the best way to split a layer of a plan over its tensor ranks. */
#ifndef CLI_PARTITION_VIEW_H
#define CLI_PARTITION_VIEW_H

#include "cli/input/options.h"
#include "cli/input/setup.h"

/* Implements "simsearch explain --partition". False when the plan has one tensor rank (ERR_USAGE)
 * or when no partition fits in the memory that the rest of the stage leaves (ERR_INFEASIBLE). */
bool explain_partition(const struct options *options, const struct setup *setup, struct err *err);

#endif
