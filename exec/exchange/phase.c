/* Runs the phases of an exchange (sim/exchange/exchange.h), each as calls of the communicator. */
#include "exec/exchange/exchanger_part.h"

#include <assert.h>

struct group *phase_group(const struct exchanger *e, const struct exchange_phase *phase)
{
    const struct exchange_groups *groups = e->on.groups;
    if (phase->size == groups->all->size)
        return groups->all;
    return phase->stride == 1 ? groups->near : groups->far;
}

int phase_parts(const struct exchange_phase *phase)
{
    switch (phase->kind) {
    case PHASE_RING:
    case PHASE_REDUCE_SCATTER:
    case PHASE_ALL_TO_ALL:
        return phase->size;
    case PHASE_SERVERS:
        return phase->peers;
    case PHASE_ALL_REDUCE:
    case PHASE_TREE:
    case PHASE_ALL_GATHER:
    case PHASE_PEERS:
    case NUM_PHASE_KINDS:
        break;
    }
    return 1;
}

void issue_all_reduce(struct exchanger *e, struct group *group, struct span span)
{
    issue_call(e, (struct comm_call){ .kind = COMM_ALL_REDUCE,
                                      .group = group,
                                      .in = span.at,
                                      .out = span.at,
                                      .count = span.count,
                                      .element = ELEMENT_FP32,
                                      .reduction = REDUCTION_SUM });
}

/* Reduce-scatter in place: this member's part of the array then holds the sum. */
static void reduce_scatter(struct exchanger *e, struct group *group, struct span *span)
{
    struct span own = span_part(*span, group->index, group->size);
    issue_call(e, (struct comm_call){ .kind = COMM_REDUCE_SCATTER,
                                      .group = group,
                                      .in = span->at,
                                      .out = own.at,
                                      .count = own.count,
                                      .element = ELEMENT_FP32,
                                      .reduction = REDUCTION_SUM });
    *span = own;
}

/* All-gather in place, of this member's part. It is the last phase of a method. */
static void all_gather(struct exchanger *e, struct group *group, struct span part)
{
    float *all = part.at - (size_t)group->index * part.count;
    issue_call(e, (struct comm_call){ .kind = COMM_ALL_GATHER,
                                      .group = group,
                                      .in = part.at,
                                      .out = all,
                                      .count = part.count,
                                      .element = ELEMENT_FP32 });
}

void phase_run(struct exchanger *e, const struct exchange_phase *phase, struct span *span)
{
    struct group *group = phase_group(e, phase);
    switch (phase->kind) {
    case PHASE_ALL_REDUCE:
        issue_all_reduce(e, group, *span);
        return;
    case PHASE_RING:
        ring_all_reduce(e, group, *span);
        return;
    case PHASE_TREE:
        tree_all_reduce(e, group, *span);
        return;
    case PHASE_SERVERS:
        servers_all_reduce(e, group, phase->peers, *span);
        return;
    case PHASE_REDUCE_SCATTER:
        reduce_scatter(e, group, span);
        return;
    case PHASE_ALL_GATHER:
        all_gather(e, group, *span);
        return;
    case PHASE_ALL_TO_ALL:
    case PHASE_PEERS:
    case NUM_PHASE_KINDS:
        break;
    }
    assert(!"neighbours and robust aggregation have their own functions");
}
