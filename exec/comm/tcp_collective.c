/* Collectives over a group's sockets. A call's values are cut into parts, one for each member:
 * large messages go around a ring, others directly to all members, and small sums via a few
 * members. */
#include "exec/comm/tcp_collective.h"

#include "base/arena.h"
#include "exec/comm/reduce.h"

#include <stdlib.h>
#include <string.h>

/* Size of a slice of a ring message: small enough to be summed in the cache, large enough that a
 * wake-up is cheap in comparison. */
enum { CHUNK_BYTES = 256 << 10 };

/* The smallest part of a sum that one member reduces, in groups of three or more. Measured with
 * sums of 16 KiB: on a loopback, half this size takes 1.4 times as long; over links of 100 Mbit/s,
 * twice this size takes 1.4 times as long. */
enum { LEAST_PART_BYTES = 8 << 10 };

static void copy_bytes(void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && to != from)
        memmove(to, from, bytes);
}

/* --- parts ---------------------------------------------------------------------------------- */

/* A message cut into one part per member. All parts but the last ones are equal. Offsets are in
 * bytes. */
struct parts {
    size_t bytes, stride;
    int size;
};

static struct parts parts_of(const struct comm_call *call, size_t count)
{
    size_t size = (size_t)call->group->size;
    size_t bytes = element_bytes(call->element);
    return (struct parts){ .bytes = count * bytes,
                           .stride = (count + size - 1) / size * bytes,
                           .size = (int)size };
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t part_at(const struct parts *parts, int part)
{
    return smaller((size_t)part * parts->stride, parts->bytes);
}

static size_t part_bytes(const struct parts *parts, int part)
{
    return part_at(parts, part + 1) - part_at(parts, part);
}

/* The number of bytes from `first` to the end of the part, but at most one chunk. */
static size_t left_bytes(size_t bytes, size_t first, size_t chunk)
{
    return first < bytes ? smaller(bytes - first, chunk) : 0;
}

/* --- direct exchange with all members: fewest steps ----------------------------------------- */

/* The i-th member after this one. With this order members begin with different peers. */
static int member_after(const struct links *links, int i)
{
    return (links->index + i) % links->size;
}

/* Sums in rank order. Slot j of the scratch memory holds the values of member j. */
static void reduce_slots(const struct links *links, const struct comm_call *call, const void *own,
                         size_t slot_bytes, void *out, size_t bytes)
{
    const void **slots = arena_grow(NULL, (size_t)links->size * sizeof(void *));
    for (int j = 0; j < links->size; j++)
        slots[j] = j == links->index ? own : links->scratch + (size_t)j * slot_bytes;
    reduce_parts(call->element, call->reduction, slots, links->size, out,
                 bytes / element_bytes(call->element));
    free(slots);
}

/* Two members swap their values: this takes one step instead of two and moves the same bytes. */
static bool reduce_swapped(struct links *links, const struct comm_call *call,
                           struct lost_member *lost)
{
    size_t bytes = call->count * element_bytes(call->element);
    int other = 1 - links->index;
    char *slots = links_scratch(links, 2 * bytes);
    struct transfer both[] = { links_send(other, call->in, bytes),
                               links_receive(other, slots + (size_t)other * bytes, bytes) };
    if (!links_exchange(links, both, 2, lost))
        return false;
    reduce_slots(links, call, call->in, bytes, call->out, bytes);
    return true;
}

/* Each member receives its part from all members and reduces it into `out`. */
static bool reduce_parts_direct(struct links *links, const struct comm_call *call,
                                const struct parts *parts, char *out, struct lost_member *lost)
{
    const char *in = call->in;
    int own = links->index;
    size_t slot_bytes = smaller(parts->stride, CHUNK_BYTES);
    char *slots = links_scratch(links, (size_t)links->size * slot_bytes);
    for (size_t at = 0; at < parts->stride; at += CHUNK_BYTES) {
        size_t own_bytes = left_bytes(part_bytes(parts, own), at, CHUNK_BYTES);
        int count = 0;
        for (int i = 1; i < links->size; i++) {
            int member = member_after(links, i);
            links->transfers[count++] =
                links_send(member, in + part_at(parts, member) + at,
                           left_bytes(part_bytes(parts, member), at, CHUNK_BYTES));
            links->transfers[count++] =
                links_receive(member, slots + (size_t)member * slot_bytes, own_bytes);
        }
        if (!links_exchange(links, links->transfers, count, lost))
            return false;
        reduce_slots(links, call, in + part_at(parts, own) + at, slot_bytes, out + at, own_bytes);
    }
    return true;
}

/* Gathers all parts. This member's part is already in `out`. */
static bool gather_direct(struct links *links, const struct parts *parts, char *out,
                          struct lost_member *lost)
{
    int own = links->index, count = 0;
    for (int i = 1; i < links->size; i++) {
        int member = member_after(links, i);
        links->transfers[count++] =
            links_send(member, out + part_at(parts, own), part_bytes(parts, own));
        links->transfers[count++] =
            links_receive(member, out + part_at(parts, member), part_bytes(parts, member));
    }
    return links_exchange(links, links->transfers, count, lost);
}

/* --- ring: each link carries each part once ------------------------------------------------- */

/* Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms". In step s member i sends its
 * partial sum of part i - 1 - s, receives part i - 2 - s and adds its own values. */
struct ring_step {
    const char *send;
    size_t send_bytes;
    const char *own;
    char *sum;
    size_t sum_bytes;
};

static bool take_ring_step(struct links *links, const struct comm_call *call,
                           const struct ring_step *step, struct lost_member *lost)
{
    int next = member_after(links, 1), before = member_after(links, links->size - 1);
    char *received = links_scratch(links, CHUNK_BYTES);
    size_t most = larger(step->send_bytes, step->sum_bytes);
    for (size_t at = 0; at < most; at += CHUNK_BYTES) {
        size_t bytes = left_bytes(step->sum_bytes, at, CHUNK_BYTES);
        struct transfer both[] = {
            links_send(next, step->send + at, left_bytes(step->send_bytes, at, CHUNK_BYTES)),
            links_receive(before, received, bytes),
        };
        if (!links_exchange(links, both, 2, lost))
            return false;
        const void *terms[] = { received, step->own + at };
        reduce_parts(call->element, call->reduction, terms, 2, step->sum + at,
                     bytes / element_bytes(call->element));
    }
    return true;
}

/* Buffers of partial sums: part p is at `at` + p x stride until the next step has sent it; the
 * final sum of this member's part goes to `out`. */
struct ring_sums {
    char *at;
    size_t stride;
    char *out;
};

static bool reduce_ring(struct links *links, const struct comm_call *call,
                        const struct parts *parts, struct ring_sums sums, struct lost_member *lost)
{
    int size = links->size;
    const char *in = call->in;
    for (int s = 0; s <= size - 2; s++) {
        int sent = member_after(links, size - 1 - s);
        int summed = member_after(links, size - 2 - s);
        struct ring_step step = {
            .send = s == 0 ? in + part_at(parts, sent) : sums.at + (size_t)sent * sums.stride,
            .send_bytes = part_bytes(parts, sent),
            .own = in + part_at(parts, summed),
            .sum = s == size - 2 ? sums.out : sums.at + (size_t)summed * sums.stride,
            .sum_bytes = part_bytes(parts, summed),
        };
        if (!take_ring_step(links, call, &step, lost))
            return false;
    }
    return true;
}

static bool gather_ring(struct links *links, const struct parts *parts, char *out,
                        struct lost_member *lost)
{
    int size = links->size;
    int next = member_after(links, 1), before = member_after(links, size - 1);
    for (int s = 0; s < size - 1; s++) {
        int sent = member_after(links, size - s);
        int received = member_after(links, size - 1 - s);
        struct transfer both[] = {
            links_send(next, out + part_at(parts, sent), part_bytes(parts, sent)),
            links_receive(before, out + part_at(parts, received), part_bytes(parts, received)),
        };
        if (!links_exchange(links, both, 2, lost))
            return false;
    }
    return true;
}

/* --- collectives ---------------------------------------------------------------------------- */

/* Whether to use the ring. It is not used for 16-bit sums, which would be rounded at every hop. */
static bool goes_round(const struct comm_call *call, size_t message_bytes)
{
    return message_bytes > COMM_RING_BYTES && element_bytes(call->element) > 2;
}

/* If parts would be so small that latency dominates, only the first members reduce; for a few
 * numbers, only member 0 does. */
static bool all_reduce_direct(struct links *links, const struct comm_call *call, struct parts parts,
                              struct lost_member *lost)
{
    parts.stride = larger(parts.stride, LEAST_PART_BYTES);
    char *out = call->out;
    return reduce_parts_direct(links, call, &parts, out + part_at(&parts, links->index), lost) &&
           gather_direct(links, &parts, out, lost);
}

static bool all_reduce(struct links *links, const struct comm_call *call, struct lost_member *lost)
{
    struct parts parts = parts_of(call, call->count);
    char *out = call->out, *own = out + part_at(&parts, links->index);
    if (links->size == 2 && parts.bytes <= 2 * LEAST_PART_BYTES)
        return reduce_swapped(links, call, lost);
    if (goes_round(call, parts.bytes))
        return reduce_ring(links, call, &parts, (struct ring_sums){ out, parts.stride, own },
                           lost) &&
               gather_ring(links, &parts, out, lost);
    return all_reduce_direct(links, call, parts, lost);
}

static bool reduce_scatter(struct links *links, const struct comm_call *call,
                           struct lost_member *lost)
{
    struct parts parts = parts_of(call, call->count * (size_t)links->size);
    if (!goes_round(call, parts.bytes))
        return reduce_parts_direct(links, call, &parts, call->out, lost);
    char *sums = arena_grow(NULL, parts.stride);
    bool ok = reduce_ring(links, call, &parts, (struct ring_sums){ sums, 0, call->out }, lost);
    free(sums);
    return ok;
}

static bool all_gather(struct links *links, const struct comm_call *call, struct lost_member *lost)
{
    struct parts parts = parts_of(call, call->count * (size_t)links->size);
    char *out = call->out;
    copy_bytes(out + part_at(&parts, links->index), call->in, parts.stride);
    return parts.bytes > COMM_RING_BYTES ? gather_ring(links, &parts, out, lost)
                                         : gather_direct(links, &parts, out, lost);
}

static bool all_to_all(struct links *links, const struct comm_call *call, struct lost_member *lost)
{
    size_t bytes = call->count * element_bytes(call->element);
    const char *in = call->in;
    char *out = call->out;
    int count = 0;
    for (int i = 1; i < links->size; i++) {
        int member = member_after(links, i);
        links->transfers[count++] = links_send(member, in + (size_t)member * bytes, bytes);
        links->transfers[count++] = links_receive(member, out + (size_t)member * bytes, bytes);
    }
    copy_bytes(out + (size_t)links->index * bytes, in + (size_t)links->index * bytes, bytes);
    return links_exchange(links, links->transfers, count, lost);
}

static bool broadcast(struct links *links, const struct comm_call *call, struct lost_member *lost)
{
    size_t bytes = call->count * element_bytes(call->element);
    struct transfer from_root = links_receive(call->peer, call->out, bytes);
    if (links->index != call->peer)
        return links_exchange(links, &from_root, 1, lost);
    copy_bytes(call->out, call->in, bytes);
    int count = 0;
    for (int i = 1; i < links->size; i++)
        links->transfers[count++] = links_send(member_after(links, i), call->in, bytes);
    return links_exchange(links, links->transfers, count, lost);
}

static bool exchange_messages(struct links *links, const struct comm_call *call,
                              struct lost_member *lost)
{
    size_t bytes = call->count * element_bytes(call->element);
    struct comm_messages messages = comm_messages(call);
    int count = 0;
    for (int i = 0; i < messages.num_to; i++)
        links->transfers[count++] = links_send(messages.to[i], call->in, bytes);
    for (int i = 0; i < messages.num_from; i++)
        links->transfers[count++] =
            links_receive(messages.from[i], (char *)call->out + (size_t)i * bytes, bytes);
    return links_exchange(links, links->transfers, count, lost);
}

static bool barrier(struct links *links, struct lost_member *lost)
{
    char *bytes = links_scratch(links, (size_t)links->size);
    static const char here = 1;
    int count = 0;
    for (int i = 1; i < links->size; i++) {
        int member = member_after(links, i);
        links->transfers[count++] = links_send(member, &here, 1);
        links->transfers[count++] = links_receive(member, bytes + member, 1);
    }
    return links_exchange(links, links->transfers, count, lost);
}

/* In a group of one the input is the result. */
static void run_alone(const struct comm_call *call)
{
    if (call->kind != COMM_BARRIER)
        copy_bytes(call->out, call->in, call->count * element_bytes(call->element));
}

bool tcp_collective_run(struct links *links, const struct comm_call *call, struct lost_member *lost)
{
    if (links->size == 1) {
        run_alone(call);
        return true;
    }
    switch (call->kind) {
    case COMM_ALL_REDUCE:
        return all_reduce(links, call, lost);
    case COMM_ALL_GATHER:
        return all_gather(links, call, lost);
    case COMM_REDUCE_SCATTER:
        return reduce_scatter(links, call, lost);
    case COMM_BROADCAST:
        return broadcast(links, call, lost);
    case COMM_ALL_TO_ALL:
        return all_to_all(links, call, lost);
    case COMM_SEND:
    case COMM_RECV:
    case COMM_SEND_RECV:
    case COMM_NEIGHBOURS:
        return exchange_messages(links, call, lost);
    case COMM_BARRIER:
        return barrier(links, lost);
    }
    return true;
}
