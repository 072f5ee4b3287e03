/* Collectives and messages between ranks that are threads of one process. In a round all members
 * meet, read each other's buffers, and leave together. The world is the set of all ranks. */
#include "exec/comm/local_collective.h"

#include "base/arena.h"
#include "exec/comm/local_meeting.h"
#include "exec/comm/reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- rounds --------------------------------------------------------------------------------- */

/* Returns true for the last member to arrive, which opens the next round. The caller holds the
 * mutex. */
static bool completes_round(struct meeting *meeting)
{
    if (++meeting->num_come < meeting->size)
        return false;
    meeting->num_come = 0;
    meeting->round++;
    pthread_cond_broadcast(&meeting->changed);
    return true;
}

/* Waits until every member has arrived. Returns false on all members if the world failed. */
static bool all_have_come(struct meeting *meeting)
{
    pthread_mutex_lock(&meeting->mutex);
    unsigned round = meeting->round;
    if (!completes_round(meeting))
        while (meeting->round == round && !meeting_has_failed(meeting))
            pthread_cond_wait(&meeting->changed, &meeting->mutex);
    bool came = meeting->round != round;
    if (!came)
        meeting->num_come--;
    pthread_mutex_unlock(&meeting->mutex);
    return came;
}

/* Waits until all members have finished reading each other's memory, even after a failure. */
static void leave_together(struct meeting *meeting)
{
    pthread_mutex_lock(&meeting->mutex);
    unsigned round = meeting->round;
    if (!completes_round(meeting))
        while (meeting->round == round)
            pthread_cond_wait(&meeting->changed, &meeting->mutex);
    pthread_mutex_unlock(&meeting->mutex);
}

/* --- collectives ---------------------------------------------------------------------------- */

static bool is_reduced(enum comm_kind kind)
{
    return kind == COMM_ALL_REDUCE || kind == COMM_REDUCE_SCATTER;
}

static bool agree(const struct comm_call *a, const struct comm_call *b)
{
    return a->kind == b->kind && a->count == b->count && a->element == b->element &&
           (!is_reduced(a->kind) || a->reduction == b->reduction) &&
           (a->kind != COMM_BROADCAST || a->peer == b->peer);
}

static void refuse(const struct meeting *meeting, int index, const struct comm_call *theirs,
                   const struct comm_call *own)
{
    struct err err = { 0 };
    char where[24];
    snprintf(where, sizeof where, "rank %d", meeting->ranks[own->group->index]);
    err_set(&err, ERR_SYSTEM, where, "calls %s of %zu %s, but rank %d calls %s of %zu %s",
            comm_kind_names[own->kind], own->count, element_names[own->element],
            meeting->ranks[index], comm_kind_names[theirs->kind], theirs->count,
            element_names[theirs->element]);
    local_world_fail(meeting->world, &err);
}

static bool all_agree(const struct meeting *meeting, const struct comm_call *own)
{
    for (int i = 0; i < meeting->size; i++)
        if (!agree(meeting->calls[i], own)) {
            refuse(meeting, i, meeting->calls[i], own);
            return false;
        }
    return true;
}

/* Counts moved bytes. The sender counts a message; bytes of collectives are counted by the rank
 * that copies them. */
static void count_bytes(const struct comm_call *own, size_t bytes)
{
    ((struct local_group *)own->group)->moved_bytes += (double)bytes;
}

static void copy_bytes(void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && to != from)
        memcpy(to, from, bytes);
}

static const char *in_of(const struct meeting *meeting, int index, size_t offset)
{
    const char *in = meeting->calls[index]->in;
    return in ? in + offset : NULL;
}

/* Reduces elements [first, first + count) of all members into `out`. */
static void reduce_range(const struct meeting *meeting, const struct comm_call *own, size_t first,
                         size_t count, char *out)
{
    const void **parts = arena_grow(NULL, (size_t)meeting->size * sizeof(void *));
    for (int i = 0; i < meeting->size; i++)
        parts[i] = in_of(meeting, i, first * element_bytes(own->element));
    count_bytes(own, (size_t)(meeting->size - 1) * count * element_bytes(own->element));
    reduce_parts(own->element, own->reduction, parts, meeting->size, out, count);
    free(parts);
}

/* Each member reduces one part and copies the result to all members. No other member reads or
 * writes that part. */
static void all_reduce(const struct meeting *meeting, const struct comm_call *own)
{
    size_t index = (size_t)own->group->index, size = (size_t)meeting->size;
    size_t first = own->count * index / size;
    size_t count = own->count * (index + 1) / size - first;
    size_t offset = first * element_bytes(own->element);
    reduce_range(meeting, own, first, count, (char *)own->out + offset);
    count_bytes(own, (size - 1) * count * element_bytes(own->element));
    for (int i = 0; i < meeting->size; i++)
        copy_bytes((char *)meeting->calls[i]->out + offset, (char *)own->out + offset,
                   count * element_bytes(own->element));
}

static void gather(const struct meeting *meeting, const struct comm_call *own, size_t in_offset)
{
    size_t bytes = own->count * element_bytes(own->element);
    for (int i = 0; i < meeting->size; i++)
        copy_bytes((char *)own->out + (size_t)i * bytes, in_of(meeting, i, in_offset), bytes);
    count_bytes(own, (size_t)(meeting->size - 1) * bytes);
}

static void run_collective(const struct meeting *meeting, const struct comm_call *own)
{
    size_t bytes = own->count * element_bytes(own->element);
    size_t index = (size_t)own->group->index;
    if (own->kind == COMM_ALL_REDUCE)
        all_reduce(meeting, own);
    else if (own->kind == COMM_REDUCE_SCATTER)
        reduce_range(meeting, own, index * own->count, own->count, own->out);
    else if (own->kind == COMM_ALL_GATHER)
        gather(meeting, own, 0);
    else if (own->kind == COMM_ALL_TO_ALL)
        gather(meeting, own, index * bytes);
    else if (own->kind == COMM_BROADCAST) {
        copy_bytes(own->out, in_of(meeting, own->peer, 0), bytes);
        count_bytes(own, own->group->index == own->peer ? 0 : bytes);
    }
}

static void meet(struct meeting *meeting, const struct comm_call *own)
{
    pthread_mutex_lock(&meeting->mutex);
    meeting->calls[own->group->index] = own;
    pthread_mutex_unlock(&meeting->mutex);
    if (!all_have_come(meeting))
        return;
    if (all_agree(meeting, own))
        run_collective(meeting, own);
    leave_together(meeting);
}

/* --- messages ------------------------------------------------------------------------------- */

static struct mailbox *mailbox(const struct meeting *meeting, int from, int to)
{
    return &meeting->mailboxes[from * meeting->size + to];
}

static void put(struct meeting *meeting, const struct comm_call *own, int to)
{
    struct mailbox *box = mailbox(meeting, own->group->index, to);
    pthread_mutex_lock(&meeting->mutex);
    box->sent = own;
    box->taken = false;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->mutex);
}

static void wait_until_taken(struct meeting *meeting, const struct comm_call *own, int to)
{
    struct mailbox *box = mailbox(meeting, own->group->index, to);
    pthread_mutex_lock(&meeting->mutex);
    while (!box->taken && (box->reading || !meeting_has_failed(meeting)))
        pthread_cond_wait(&meeting->changed, &meeting->mutex);
    pthread_mutex_unlock(&meeting->mutex);
}

/* The messages that a call must still receive. */
struct arrivals {
    const struct comm_messages *messages;
    int left[COMM_MOST_NEIGHBOURS]; /* indices in messages->from of the messages that have not been
                                       received */
    int count;
};

/* The first index in `left` whose message has arrived; `count`: none. The caller holds the
 * mutex. */
static int find_arrived(const struct meeting *meeting, const struct comm_call *own,
                        const struct arrivals *arrivals)
{
    int i = 0;
    while (i < arrivals->count &&
           !mailbox(meeting, arrivals->messages->from[arrivals->left[i]], own->group->index)->sent)
        i++;
    return i;
}

/* Waits for the next message and marks its mailbox as being read. Returns its index in
 * messages->from; -1 when the world failed. */
static int wait_for_message(struct meeting *meeting, const struct comm_call *own,
                            struct arrivals *arrivals)
{
    int i, next = -1;
    pthread_mutex_lock(&meeting->mutex);
    while ((i = find_arrived(meeting, own, arrivals)) == arrivals->count &&
           !meeting_has_failed(meeting))
        pthread_cond_wait(&meeting->changed, &meeting->mutex);
    if (!meeting_has_failed(meeting)) {
        next = arrivals->left[i];
        arrivals->left[i] = arrivals->left[--arrivals->count];
        mailbox(meeting, arrivals->messages->from[next], own->group->index)->reading = true;
    }
    pthread_mutex_unlock(&meeting->mutex);
    return next;
}

static void take(struct meeting *meeting, const struct comm_call *own, int from, char *out)
{
    struct mailbox *box = mailbox(meeting, from, own->group->index);
    const struct comm_call *sent = box->sent; /* stays valid while this rank reads it */
    size_t bytes = own->count * element_bytes(own->element);
    if (sent->count * element_bytes(sent->element) == bytes)
        copy_bytes(out, sent->in, bytes);
    else
        refuse(meeting, from, sent, own);
    pthread_mutex_lock(&meeting->mutex);
    *box = (struct mailbox){ .taken = true };
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->mutex);
}

static void take_all(struct meeting *meeting, const struct comm_call *own,
                     const struct comm_messages *messages)
{
    struct arrivals arrivals = { .messages = messages, .count = messages->num_from };
    size_t bytes = own->count * element_bytes(own->element);
    for (int i = 0; i < arrivals.count; i++)
        arrivals.left[i] = i;
    while (arrivals.count > 0) {
        int next = wait_for_message(meeting, own, &arrivals);
        if (next < 0)
            return;
        take(meeting, own, messages->from[next], (char *)own->out + (size_t)next * bytes);
    }
}

static void exchange_messages(struct meeting *meeting, const struct comm_call *own)
{
    struct comm_messages messages = comm_messages(own);
    for (int i = 0; i < messages.num_to; i++) {
        count_bytes(own, own->count * element_bytes(own->element));
        put(meeting, own, messages.to[i]);
    }
    take_all(meeting, own, &messages);
    for (int i = 0; i < messages.num_to; i++)
        wait_until_taken(meeting, own, messages.to[i]);
}

void local_collective_run(const struct comm_call *call)
{
    struct meeting *meeting = ((struct local_group *)call->group)->meeting;
    if (meeting_has_failed(meeting))
        return;
    if (call->kind == COMM_SEND || call->kind == COMM_RECV || call->kind == COMM_SEND_RECV ||
        call->kind == COMM_NEIGHBOURS)
        exchange_messages(meeting, call);
    else
        meet(meeting, call);
}
