#include "exec/comm.h"

#include "base/arena.h"
#include "exec/failure.h"
#include "exec/reduce.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the members of one group meet: each lays down its call, and when all have, each reads what
 * it needs straight out of the others' memory. Messages meet in pairs, one way each. */
struct mailbox {
    const struct comm_call *sent;
    bool reading; /* its receiver is at it: the sender may not leave, even when the world failed */
    bool taken;
};

struct meeting {
    struct local_world *world;
    struct meeting *next;
    int number; /* of the group_new that made it */
    int *ranks, size;
    int num_members; /* groups that still point here */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const struct comm_call **calls; /* one each */
    int num_come;
    unsigned round;
    struct mailbox *mailboxes; /* from x size + to */
};

struct local_world {
    int size;
    pthread_mutex_t mutex; /* of `meetings` */
    struct meeting *meetings;
    struct failure failure;
};

struct comm {
    struct local_world *world;
    const struct device_api *device;
    int rank;
    int num_groups; /* asked for so far */
};

struct local_group {
    struct group base;
    struct meeting *meeting;
    double moved_bytes; /* out of and into others' memory */
};

struct local_world *local_world_new(int size)
{
    struct local_world *world = arena_grow(NULL, sizeof *world);
    *world = (struct local_world){ .size = size };
    pthread_mutex_init(&world->mutex, NULL);
    failure_init(&world->failure);
    return world;
}

void local_world_free(struct local_world *world)
{
    if (!world)
        return;
    assert(!world->meetings && "groups are freed before their world");
    pthread_mutex_destroy(&world->mutex);
    failure_release(&world->failure);
    free(world);
}

/* Everyone who waits is woken. Not under a meeting's mutex. */
static void fail_world(struct local_world *world, const struct err *err)
{
    failure_keep(&world->failure, err);
    pthread_mutex_lock(&world->mutex);
    for (struct meeting *meeting = world->meetings; meeting; meeting = meeting->next) {
        pthread_mutex_lock(&meeting->mutex);
        pthread_cond_broadcast(&meeting->changed);
        pthread_mutex_unlock(&meeting->mutex);
    }
    pthread_mutex_unlock(&world->mutex);
}

static bool has_failed(const struct meeting *meeting)
{
    return failure_is_kept(&meeting->world->failure);
}

/* --- groups --------------------------------------------------------------------------------- */

static struct meeting *meeting_new(struct local_world *world, int number, const int *ranks,
                                   int size)
{
    struct meeting *meeting = arena_grow(NULL, sizeof *meeting);
    *meeting = (struct meeting){ .world = world, .number = number, .size = size };
    meeting->ranks = arena_grow(NULL, (size_t)size * sizeof *ranks);
    memcpy(meeting->ranks, ranks, (size_t)size * sizeof *ranks);
    meeting->calls = arena_grow(NULL, (size_t)size * sizeof(struct comm_call *));
    size_t mailboxes_bytes = (size_t)size * (size_t)size * sizeof *meeting->mailboxes;
    meeting->mailboxes = arena_grow(NULL, mailboxes_bytes);
    memset(meeting->mailboxes, 0, mailboxes_bytes);
    pthread_mutex_init(&meeting->mutex, NULL);
    pthread_cond_init(&meeting->changed, NULL);
    meeting->next = world->meetings;
    world->meetings = meeting;
    return meeting;
}

static void meeting_free(struct meeting *meeting)
{
    pthread_cond_destroy(&meeting->changed);
    pthread_mutex_destroy(&meeting->mutex);
    free(meeting->mailboxes);
    free(meeting->calls);
    free(meeting->ranks);
    free(meeting);
}

static struct meeting *find_meeting(struct local_world *world, int number, const int *ranks,
                                    int size)
{
    for (struct meeting *meeting = world->meetings; meeting; meeting = meeting->next)
        if (meeting->number == number && meeting->size == size &&
            memcmp(meeting->ranks, ranks, (size_t)size * sizeof *ranks) == 0)
            return meeting;
    return meeting_new(world, number, ranks, size);
}

static struct comm *local_open(const struct comm_options *options, struct err *err)
{
    (void)err;
    struct comm *comm = arena_grow(NULL, sizeof *comm);
    *comm = (struct comm){ .world = options->local_world,
                           .device = options->device,
                           .rank = options->place->rank };
    return comm;
}

static void local_close(struct comm *comm)
{
    free(comm);
}

static struct group *local_group_new(struct comm *comm, const int *ranks, int num_ranks,
                                     struct err *err)
{
    (void)err;
    int number = comm->num_groups++;
    if (num_ranks == 0)
        return NULL;
    pthread_mutex_lock(&comm->world->mutex);
    struct meeting *meeting = find_meeting(comm->world, number, ranks, num_ranks);
    meeting->num_members++;
    pthread_mutex_unlock(&comm->world->mutex);
    struct local_group *group = arena_grow(NULL, sizeof *group);
    *group = (struct local_group){ .meeting = meeting,
                                   .base = { .comm = comm,
                                             .index = group_index_of(comm->rank, ranks, num_ranks),
                                             .size = num_ranks,
                                             .ranks = meeting->ranks } };
    return &group->base;
}

static void local_group_free(struct group *base)
{
    if (!base)
        return;
    struct meeting *meeting = ((struct local_group *)base)->meeting;
    struct local_world *world = meeting->world;
    pthread_mutex_lock(&world->mutex);
    if (--meeting->num_members == 0) {
        struct meeting **link = &world->meetings;
        while (*link != meeting)
            link = &(*link)->next;
        *link = meeting->next;
        meeting_free(meeting);
    }
    pthread_mutex_unlock(&world->mutex);
    free(base);
}

/* --- collectives ---------------------------------------------------------------------------- */

/* True for the last of the members, who opens the next round. The caller holds the mutex. */
static bool completes_round(struct meeting *meeting)
{
    if (++meeting->num_come < meeting->size)
        return false;
    meeting->num_come = 0;
    meeting->round++;
    pthread_cond_broadcast(&meeting->changed);
    return true;
}

/* Whether every member came; if not, the world failed, and then it is the same for all. */
static bool all_have_come(struct meeting *meeting)
{
    pthread_mutex_lock(&meeting->mutex);
    unsigned round = meeting->round;
    if (!completes_round(meeting))
        while (meeting->round == round && !has_failed(meeting))
            pthread_cond_wait(&meeting->changed, &meeting->mutex);
    bool came = meeting->round != round;
    if (!came)
        meeting->num_come--;
    pthread_mutex_unlock(&meeting->mutex);
    return came;
}

/* Nobody's memory is let go of before all have read it, whatever fails meanwhile. */
static void leave_together(struct meeting *meeting)
{
    pthread_mutex_lock(&meeting->mutex);
    unsigned round = meeting->round;
    if (!completes_round(meeting))
        while (meeting->round == round)
            pthread_cond_wait(&meeting->changed, &meeting->mutex);
    pthread_mutex_unlock(&meeting->mutex);
}

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
    err_set(&err, ERR_SYSTEM, where, "calls %s of %zu %s where rank %d calls %s of %zu %s",
            comm_kind_names[own->kind], own->count, element_names[own->element],
            meeting->ranks[index], comm_kind_names[theirs->kind], theirs->count,
            element_names[theirs->element]);
    fail_world(meeting->world, &err);
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

/* A message counts for its sender, all else for whoever moves it. */
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

/* Elements [first, first + count) of all members, reduced into `out`. */
static void reduce_range(const struct meeting *meeting, const struct comm_call *own, size_t first,
                         size_t count, char *out)
{
    if (count == 0)
        return;
    const void **parts = arena_grow(NULL, (size_t)meeting->size * sizeof(void *));
    for (int i = 0; i < meeting->size; i++)
        parts[i] = in_of(meeting, i, first * element_bytes(own->element));
    count_bytes(own, (size_t)(meeting->size - 1) * count * element_bytes(own->element));
    reduce_parts(own->element, own->reduction, parts, meeting->size, out, count);
    free(parts);
}

/* Each member reduces a part, then gives it to all; nobody else reads or writes that part. */
static void all_reduce(const struct meeting *meeting, const struct comm_call *own)
{
    size_t index = (size_t)own->group->index, size = (size_t)meeting->size;
    size_t first = own->count * index / size;
    size_t count = own->count * (index + 1) / size - first;
    size_t offset = first * element_bytes(own->element);
    if (count == 0)
        return;
    reduce_range(meeting, own, first, count, (char *)own->out + offset);
    count_bytes(own, (size - 1) * count * element_bytes(own->element));
    for (int i = 0; i < meeting->size; i++)
        copy_bytes((char *)meeting->calls[i]->out + offset, (char *)own->out + offset,
                   count * element_bytes(own->element));
}

static void gather(const struct meeting *meeting, const struct comm_call *own, size_t in_offset)
{
    size_t bytes = own->count * element_bytes(own->element);
    for (int i = 0; bytes > 0 && i < meeting->size; i++)
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

static void put(struct meeting *meeting, const struct comm_call *own)
{
    struct mailbox *box = mailbox(meeting, own->group->index, own->peer);
    pthread_mutex_lock(&meeting->mutex);
    box->sent = own;
    box->taken = false;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->mutex);
}

static void wait_until_taken(struct meeting *meeting, const struct comm_call *own)
{
    struct mailbox *box = mailbox(meeting, own->group->index, own->peer);
    pthread_mutex_lock(&meeting->mutex);
    while (!box->taken && (box->reading || !has_failed(meeting)))
        pthread_cond_wait(&meeting->changed, &meeting->mutex);
    pthread_mutex_unlock(&meeting->mutex);
}

static const struct comm_call *wait_for_message(struct meeting *meeting, struct mailbox *box)
{
    pthread_mutex_lock(&meeting->mutex);
    while (!box->sent && !has_failed(meeting))
        pthread_cond_wait(&meeting->changed, &meeting->mutex);
    box->reading = !has_failed(meeting);
    const struct comm_call *sent = box->reading ? box->sent : NULL;
    pthread_mutex_unlock(&meeting->mutex);
    return sent;
}

static void take(struct meeting *meeting, const struct comm_call *own, int from)
{
    struct mailbox *box = mailbox(meeting, from, own->group->index);
    const struct comm_call *sent = wait_for_message(meeting, box);
    if (!sent)
        return;
    size_t bytes = own->count * element_bytes(own->element);
    if (sent->count * element_bytes(sent->element) == bytes)
        copy_bytes(own->out, sent->in, bytes);
    else
        refuse(meeting, from, sent, own);
    pthread_mutex_lock(&meeting->mutex);
    *box = (struct mailbox){ .taken = true };
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->mutex);
}

static void exchange_messages(struct meeting *meeting, const struct comm_call *own)
{
    bool sends = own->kind != COMM_RECV;
    if (sends) {
        count_bytes(own, own->count * element_bytes(own->element));
        put(meeting, own);
    }
    if (own->kind != COMM_SEND)
        take(meeting, own, own->kind == COMM_RECV ? own->peer : own->source);
    if (sends)
        wait_until_taken(meeting, own);
}

static void run_call(void *args)
{
    const struct comm_call *own = args;
    struct meeting *meeting = ((struct local_group *)own->group)->meeting;
    if (has_failed(meeting))
        return;
    if (own->kind == COMM_SEND || own->kind == COMM_RECV || own->kind == COMM_SEND_RECV)
        exchange_messages(meeting, own);
    else
        meet(meeting, own);
}

static double local_sent_bytes(const struct group *group)
{
    return ((const struct local_group *)group)->moved_bytes;
}

static void local_issue(const struct comm_call *call)
{
    call->group->comm->device->call(call->stream, run_call, call, sizeof *call);
}

static bool local_poll(struct comm *comm, struct err *err)
{
    return failure_check(&comm->world->failure, err);
}

static void local_abort(struct comm *comm)
{
    struct err err = { 0 };
    char where[24];
    snprintf(where, sizeof where, "rank %d", comm->rank);
    err_set(&err, ERR_SYSTEM, where, "communication was stopped");
    fail_world(comm->world, &err);
}

const struct comm_api comm_local = {
    .name = "local",
    .device = "host",
    .open = local_open,
    .close = local_close,
    .group_new = local_group_new,
    .group_free = local_group_free,
    .issue = local_issue,
    .sent_bytes = local_sent_bytes,
    .poll = local_poll,
    .abort = local_abort,
};
