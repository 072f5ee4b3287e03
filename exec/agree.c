#include "exec/rank_part.h"

bool rank_most(struct rank *rank, double *value, struct err *err)
{
    const struct device_api *api = rank->on.api;
    struct stream *stream = rank->streams[LANE_DATA];
    struct comm_call call = { .kind = COMM_ALL_REDUCE,
                              .group = rank_group(rank, GROUP_WORLD),
                              .stream = stream,
                              .in = rank->squares,
                              .out = rank->squares,
                              .count = 1,
                              .element = ELEMENT_FP64,
                              .reduction = REDUCTION_MAX };
    if (!call.group)
        return true;
    api->copy(stream, rank->squares, value, sizeof *value);
    rank->on.comm_api->issue(&call);
    api->copy(stream, value, rank->squares, sizeof *value);
    return api->stream_sync(stream, err) && rank->on.comm_api->poll(rank->on.comm, err);
}

bool rank_agrees(struct rank *rank, bool ok, struct err *err)
{
    double failed = !ok;
    if (!rank_most(rank, &failed, err))
        return false;
    return failed == 0 || err_set(err, ERR_SYSTEM, "", "another rank failed");
}
