/* exec/data_lane.h - what data ranks share, gathered and reduced beside compute on a stream of its
 * own. Memory is compute's: taken and given back in its order. */
#ifndef EXEC_DATA_LANE_H
#define EXEC_DATA_LANE_H

#include "exec/store.h"

struct data_lane {
    struct group *group; /* NULL: one data rank */
    struct stream *stream;
};

/* Once compute is here: ZeRO-3's values into memory that is taken for them. What compute issues
 * after the second call has them. */
void data_lane_gather(const struct data_lane *lane, struct machine *machine, struct store *store);
void data_lane_await_values(struct machine *machine, const struct store *store);

/* Once compute is here: gradients, summed over tensor ranks where they are partial, into ZeRO-2 and
 * 3's shards. After the second call, for which compute waits, the whole ones are gone. */
void data_lane_reduce(const struct data_lane *lane, struct machine *machine, struct store *store);
void data_lane_settle(struct machine *machine, struct store *store);

#endif
