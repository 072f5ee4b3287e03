/* exec/data_lane.h - gathers and reduces sharded state on a separate stream that overlaps compute.
 * Its memory is allocated and freed in the compute stream's order. */
#ifndef EXEC_DATA_LANE_H
#define EXEC_DATA_LANE_H

#include "exec/ops/store.h"

struct data_lane {
    struct group *group; /* the data ranks; NULL: one data rank */
    struct stream *stream;
};

/* data_lane_gather: when compute reaches this point, allocates memory and gathers ZeRO-3's values
 * into it. Compute that is issued after data_lane_await_values sees the values. */
void data_lane_gather(const struct data_lane *lane, struct machine *machine, struct store *store);
void data_lane_await_values(struct machine *machine, const struct store *store);

/* data_lane_reduce sums partial gradients over tensor ranks and reduces gradients into the shards
 * of ZeRO-2 and 3 when compute reaches this point. data_lane_settle makes compute wait for the
 * reduction and frees the unsharded gradients. */
void data_lane_reduce(const struct data_lane *lane, struct machine *machine, struct store *store);
void data_lane_settle(struct machine *machine, struct store *store);

#endif
