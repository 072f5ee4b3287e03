#include "exec/comm/comm.h"

#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
const char *const comm_kind_names[NUM_COMM_KINDS + 1] = {
#define X(name, text, meaning) text,
    COMM_KINDS(X)
#undef X
};

const char *const element_names[NUM_ELEMENTS + 1] = {
#define X(name, text, size) text,
    ELEMENTS(X)
#undef X
};

static const size_t sizes[NUM_ELEMENTS] = {
#define X(name, text, size) size,
    ELEMENTS(X)
#undef X
};
// clang-format on

const char *const reduction_names[NUM_REDUCTIONS + 1] = { "sum", "max" };

static_assert(sizeof(struct comm_call) <= STREAM_ARGS_BYTES,
              "a comm_call must fit in a stream's arguments");

size_t element_bytes(enum element element)
{
    return sizes[element];
}

/* The least traffic of a sum: all members but one send a summand and receive the result. */
double comm_least_sent_bytes(const struct comm_call *call)
{
    double bytes = (double)call->count * (double)element_bytes(call->element);
    double others = call->group->size - 1;
    switch (call->kind) {
    case COMM_ALL_REDUCE:
        return 2 * others / (others + 1) * bytes;
    case COMM_ALL_GATHER:
    case COMM_REDUCE_SCATTER:
    case COMM_ALL_TO_ALL:
        return others * bytes;
    case COMM_BROADCAST:
        return others / (others + 1) * bytes;
    case COMM_SEND:
    case COMM_SEND_RECV:
        return bytes;
    case COMM_NEIGHBOURS:
        return call->num_neighbours * bytes;
    case COMM_RECV:
    case COMM_BARRIER:
        break;
    }
    return 0;
}

struct comm_messages comm_messages(const struct comm_call *call)
{
    switch (call->kind) {
    case COMM_SEND:
        return (struct comm_messages){ .to = &call->peer, .num_to = 1 };
    case COMM_RECV:
        return (struct comm_messages){ .from = &call->peer, .num_from = 1 };
    case COMM_SEND_RECV:
        return (struct comm_messages){ &call->peer, &call->source, 1, 1 };
    case COMM_NEIGHBOURS:
        return (struct comm_messages){ call->tells, call->hears, call->num_neighbours,
                                       call->num_neighbours };
    case COMM_ALL_REDUCE:
    case COMM_ALL_GATHER:
    case COMM_REDUCE_SCATTER:
    case COMM_BROADCAST:
    case COMM_ALL_TO_ALL:
    case COMM_BARRIER:
        break;
    }
    return (struct comm_messages){ 0 };
}

int group_index_of(int rank, const int *ranks, int num_ranks)
{
    int index = 0;
    while (index < num_ranks && ranks[index] != rank)
        index++;
    assert(index < num_ranks && "a rank may only name its own groups");
    return index;
}

struct group group_of(struct comm *comm, int rank, const int *ranks, int num_ranks)
{
    size_t bytes = (size_t)num_ranks * sizeof *ranks;
    return (struct group){ .comm = comm,
                           .index = group_index_of(rank, ranks, num_ranks),
                           .size = num_ranks,
                           .ranks = memcpy(arena_grow(NULL, bytes), ranks, bytes) };
}

void group_release(struct group *group)
{
    free((void *)group->ranks);
    group->ranks = NULL;
}
