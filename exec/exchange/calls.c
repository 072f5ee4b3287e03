/* Issues an exchanger's kernels, copies and messages on its stream. */
#include "exec/exchange/exchanger_part.h"

#include <assert.h>
#include <string.h>

float *exchanger_take(struct exchanger *e, size_t elements, struct err *err)
{
    size_t bytes = sizeof(float) * elements;
    float *at = e->on.device_api->alloc(e->on.device, e->on.stream, bytes, err);
    if (at)
        exchanger_clear(e, at, elements);
    return at;
}

bool exchanger_take_messages(struct exchanger *e, double bytes, struct err *err)
{
    e->message_bytes = (size_t)bytes;
    size_t all = e->message_bytes * (size_t)e->on.ranks.count;
    e->messages = e->on.device_api->alloc(e->on.device, e->on.stream, all, err);
    return e->messages != NULL;
}

void *exchanger_message(const struct exchanger *e, int rank)
{
    return e->messages + (size_t)rank * e->message_bytes;
}

void exchanger_gather_messages(struct exchanger *e)
{
    struct group *all = e->on.groups->all;
    issue_call(e, (struct comm_call){ .kind = COMM_ALL_GATHER,
                                      .group = all,
                                      .in = exchanger_message(e, all->index),
                                      .out = e->messages,
                                      .count = e->message_bytes,
                                      .element = ELEMENT_BYTES });
}

/* --- kernels ------------------------------------------------------------------------------ */

void exchanger_copy(struct exchanger *e, float *to, const float *from, size_t elements)
{
    e->on.device_api->copy(e->on.stream, to, from, sizeof *to * elements);
}

void exchanger_clear(struct exchanger *e, float *at, size_t elements)
{
    e->on.device_api->fill(e->on.stream, at, 0, sizeof *at * elements);
}

void exchanger_add(struct exchanger *e, float *sum, const float *x, size_t elements)
{
    e->on.kernel_api->gradient_sum(e->on.kernels, e->on.stream,
                                   &(struct gradient_sum){ (long)elements, x, sum });
}

void exchanger_combine(struct exchanger *e, float a, const float *x, float b, const float *y,
                       float *out, size_t elements)
{
    e->on.kernel_api->combine(e->on.kernels, e->on.stream,
                              &(struct combine_args){ (long)elements, a, x, b, y, out });
}

/* --- messages ----------------------------------------------------------------------------- */

void issue_call(struct exchanger *e, struct comm_call call)
{
    call.stream = e->on.stream;
    e->on.groups->api->issue(&call);
}

void issue_send(struct exchanger *e, struct group *group, int to, struct span from)
{
    issue_call(e, (struct comm_call){ .kind = COMM_SEND,
                                      .group = group,
                                      .in = from.at,
                                      .count = from.count,
                                      .element = ELEMENT_FP32,
                                      .peer = to });
}

void issue_receive(struct exchanger *e, struct group *group, int from, struct span to)
{
    issue_call(e, (struct comm_call){ .kind = COMM_RECV,
                                      .group = group,
                                      .out = to.at,
                                      .count = to.count,
                                      .element = ELEMENT_FP32,
                                      .peer = from });
}

void issue_pass(struct exchanger *e, struct group *group, int to, const float *from, int source,
                struct span received)
{
    issue_call(e, (struct comm_call){ .kind = COMM_SEND_RECV,
                                      .group = group,
                                      .in = from,
                                      .out = received.at,
                                      .count = received.count,
                                      .element = ELEMENT_FP32,
                                      .peer = to,
                                      .source = source });
}

void issue_to_peers(struct exchanger *e, struct group *group, const struct mixing_peers *peers,
                    const float *from, size_t elements)
{
    static_assert(sizeof peers->tells <= sizeof((struct comm_call *)0)->tells, "room for all");
    struct comm_call call = { .kind = COMM_NEIGHBOURS,
                              .group = group,
                              .in = from,
                              .out = e->received,
                              .count = elements,
                              .element = ELEMENT_FP32,
                              .num_neighbours = peers->count };
    memcpy(call.tells, peers->tells, sizeof *call.tells * (size_t)peers->count);
    memcpy(call.hears, peers->hears, sizeof *call.hears * (size_t)peers->count);
    issue_call(e, call);
}
