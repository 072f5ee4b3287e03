/* exec/data_lane.h - gathers and reduces sharded state beside compute, on a stream of its own. Its
 * memory is taken and given back in the compute stream's order. */
#ifndef EXEC_DATA_LANE_H
#define EXEC_DATA_LANE_H

#include "exec/ops/store.h"

struct data_lane {
    struct group *group; /* NULL: one data rank */
    struct stream *stream;
};

/* data_lane_gather: takes memory and gathers ZeRO-3's values into it, once compute reaches this
 * place. After data_lane_await_values, later compute sees them. */
void data_lane_gather(const struct data_lane *lane, struct machine *machine, struct store *store);
void data_lane_await_values(struct machine *machine, const struct store *store);

/* data_lane_reduce: once compute reaches this place, sums partial gradients over tensor ranks and
 * reduces gradients into the shards of ZeRO-2 and 3. data_lane_settle: compute waits for that, and
 * the whole gradients are freed. */
void data_lane_reduce(const struct data_lane *lane, struct machine *machine, struct store *store);
void data_lane_settle(struct machine *machine, struct store *store);

#endif
