/* Gathers and reductions on the data lane, a stream that overlaps compute. A store holds parameters
 * with their gradients and optimizer state. */
#include "exec/data_lane.h"

void data_lane_gather(const struct data_lane *lane, struct machine *m, struct store *store)
{
    store_open_values(m, store);
    if (!store->values)
        return;
    machine_follow(m, lane->stream);
    store_gather(m, store, lane->group, lane->stream);
    m->device_api->record(lane->stream, store->gathered);
}

void data_lane_await_values(struct machine *m, const struct store *store)
{
    m->device_api->wait(m->compute, store->gathered);
}

/* Sums partial gradients over tensor ranks, on the stream of their collectives, after compute and
 * before the data lane. */
static void sum_partial(const struct data_lane *lane, struct machine *m, struct store *store)
{
    machine_follow(m, m->tensor_stream);
    store_sum_partial(m, store, m->tensor, m->tensor_stream);
    m->device_api->record(m->tensor_stream, m->transferred[0]);
    m->device_api->wait(lane->stream, m->transferred[0]);
}

void data_lane_reduce(const struct data_lane *lane, struct machine *m, struct store *store)
{
    if (m->tensor)
        sum_partial(lane, m, store);
    else
        machine_follow(m, lane->stream);
    store_reduce(m, store, lane->group, lane->stream);
    m->device_api->record(lane->stream, store->reduced);
}

void data_lane_settle(struct machine *m, struct store *store)
{
    m->device_api->wait(m->compute, store->reduced);
    store_drop_gradients(m, store);
}
