/* The communicator of exec/comm/comm.h by MPI. */
#include "exec/plugin/plugin.h"

#include "base/arena.h"
#include "exec/comm/failure.h"
#include "exec/comm/reduce.h"

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Every MPI call is made under one lock, so MPI_THREAD_SERIALIZED suffices. Waiting threads take
 * turns to test their requests. */
struct comm {
    const struct device_api *device;
    int rank;
    char where[24];
    MPI_Op sum_16_bits, max;
    pthread_mutex_t mutex; /* guards all MPI calls */
    struct failure failure;
};

struct mpi_group {
    struct group base;
    MPI_Comm members;
    double sent_bytes;
};

static void fail_comm(struct comm *comm, const char *what, int status)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    struct err err = { 0 };
    pthread_mutex_lock(&comm->mutex);
    if (status != MPI_SUCCESS)
        MPI_Error_string(status, text, &length);
    pthread_mutex_unlock(&comm->mutex);
    err_set(&err, ERR_SYSTEM, comm->where, "%s%s%s", what, length > 0 ? ": " : "", text);
    failure_keep(&comm->failure, &err);
}

/* --- types and sums ------------------------------------------------------------------------- */

static MPI_Datatype type_of(enum element element)
{
    switch (element) {
    case ELEMENT_FP32:
        return MPI_FLOAT;
    case ELEMENT_FP64:
        return MPI_DOUBLE;
    case ELEMENT_BF16:
        return MPI_UINT16_T;
    case ELEMENT_FP16: /* MPI has neither bf16 nor fp16; these types stand for them in the reduction
                          functions below */
        return MPI_INT16_T;
    case ELEMENT_BYTES:
        break;
    }
    return MPI_BYTE;
}

static enum element element_of(MPI_Datatype type)
{
    return type == MPI_FLOAT     ? ELEMENT_FP32
           : type == MPI_DOUBLE  ? ELEMENT_FP64
           : type == MPI_INT16_T ? ELEMENT_FP16
                                 : ELEMENT_BF16;
}

static void combine(void *from, void *into, const int *count, const MPI_Datatype *type,
                    enum reduction reduction)
{
    const void *parts[] = { from, into };
    reduce_parts(element_of(*type), reduction, parts, 2, into, (size_t)*count);
}

static void add_16_bits(void *from, void *into, int *count, MPI_Datatype *type)
{
    combine(from, into, count, type, REDUCTION_SUM);
}

/* Replaces MPI_MAX, which may lose a NaN. */
static void take_larger(void *from, void *into, int *count, MPI_Datatype *type)
{
    combine(from, into, count, type, REDUCTION_MAX);
}

static MPI_Op op_of(const struct comm *comm, const struct comm_call *call)
{
    if (call->reduction == REDUCTION_MAX)
        return comm->max;
    bool has_16_bits = call->element == ELEMENT_BF16 || call->element == ELEMENT_FP16;
    return has_16_bits ? comm->sum_16_bits : MPI_SUM;
}

/* --- calls ---------------------------------------------------------------------------------- */

/* The started requests: at most one message each way per neighbour. */
struct started {
    MPI_Request requests[2 * COMM_MOST_NEIGHBOURS];
    int count;
    int status;
};

static void start_reduction(const struct comm_call *call, struct started *started)
{
    const struct mpi_group *group = (const struct mpi_group *)call->group;
    const void *in = call->in == call->out ? MPI_IN_PLACE : call->in;
    MPI_Op op = op_of(call->group->comm, call);
    MPI_Datatype type = type_of(call->element);
    int count = (int)call->count;
    MPI_Request *request = &started->requests[started->count++];
    if (call->kind == COMM_ALL_REDUCE)
        started->status = MPI_Iallreduce(in, call->out, count, type, op, group->members, request);
    else
        started->status = MPI_Ireduce_scatter_block(call->in, call->out, count, type, op,
                                                    group->members, request);
}

static void start_move(const struct comm_call *call, struct started *started)
{
    MPI_Comm members = ((const struct mpi_group *)call->group)->members;
    MPI_Datatype type = type_of(call->element);
    int count = (int)call->count;
    size_t bytes = call->count * element_bytes(call->element);
    const char *own = (const char *)call->out + (size_t)call->group->index * bytes;
    MPI_Request *request = &started->requests[started->count++];
    if (call->kind == COMM_ALL_GATHER)
        started->status = MPI_Iallgather(call->in == own ? MPI_IN_PLACE : call->in, count, type,
                                         call->out, count, type, members, request);
    else if (call->kind == COMM_ALL_TO_ALL)
        started->status =
            MPI_Ialltoall(call->in, count, type, call->out, count, type, members, request);
    else if (call->kind == COMM_BROADCAST)
        started->status = MPI_Ibcast(call->out, count, type, call->peer, members, request);
    else
        started->status = MPI_Ibarrier(members, request);
}

static void start_messages(const struct comm_call *call, struct started *started)
{
    MPI_Comm members = ((const struct mpi_group *)call->group)->members;
    MPI_Datatype type = type_of(call->element);
    int count = (int)call->count;
    size_t bytes = call->count * element_bytes(call->element);
    struct comm_messages messages = comm_messages(call);
    for (int i = 0; i < messages.num_from && started->status == MPI_SUCCESS; i++)
        started->status =
            MPI_Irecv((char *)call->out + (size_t)i * bytes, count, type, messages.from[i], 0,
                      members, &started->requests[started->count++]);
    for (int i = 0; i < messages.num_to && started->status == MPI_SUCCESS; i++)
        started->status = MPI_Isend(call->in, count, type, messages.to[i], 0, members,
                                    &started->requests[started->count++]);
}

static struct started start(const struct comm_call *call)
{
    struct started started = { .status = MPI_SUCCESS };
    switch (call->kind) {
    case COMM_ALL_REDUCE:
    case COMM_REDUCE_SCATTER:
        start_reduction(call, &started);
        break;
    case COMM_ALL_GATHER:
    case COMM_ALL_TO_ALL:
    case COMM_BROADCAST:
    case COMM_BARRIER:
        start_move(call, &started);
        break;
    case COMM_SEND:
    case COMM_RECV:
    case COMM_SEND_RECV:
    case COMM_NEIGHBOURS:
        start_messages(call, &started);
        break;
    }
    return started;
}

/* Yields the core between tests. A thread that tests without a pause takes half of its core from
 * the computation; one that yields takes a hundredth. After many tests it sleeps, as a short delay
 * hardly lengthens a long call. */
static void let_others_run(int tests)
{
    enum { SHORT_WAIT_TESTS = 1000 };
    if (tests < SHORT_WAIT_TESTS)
        sched_yield();
    else
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

static int finish(struct comm *comm, struct started *started)
{
    int done = 0, status = MPI_SUCCESS;
    for (int tests = 0; !failure_is_kept(&comm->failure); tests += tests < INT_MAX) {
        pthread_mutex_lock(&comm->mutex);
        status = MPI_Testall(started->count, started->requests, &done, MPI_STATUSES_IGNORE);
        pthread_mutex_unlock(&comm->mutex);
        if (done || status != MPI_SUCCESS)
            break;
        let_others_run(tests);
    }
    return status;
}

static void run_started(struct comm *comm, const struct comm_call *call)
{
    pthread_mutex_lock(&comm->mutex);
    struct started started = start(call);
    pthread_mutex_unlock(&comm->mutex);
    if (started.status == MPI_SUCCESS)
        started.status = finish(comm, &started);
    if (started.status != MPI_SUCCESS)
        fail_comm(comm, comm_kind_names[call->kind], started.status);
}

/* MPI's own in-place form would store the result in another place. */
static void reduce_scatter_in_place(struct comm *comm, const struct comm_call *call)
{
    size_t bytes = call->count * element_bytes(call->element);
    struct comm_call apart = *call;
    apart.out = arena_grow(NULL, bytes + 1);
    run_started(comm, &apart);
    memcpy(call->out, apart.out, bytes);
    /* After a failure MPI may still write to this memory, so it is not freed. */
    if (!failure_is_kept(&comm->failure))
        free(apart.out);
}

static void run_call(void *args)
{
    const struct comm_call *call = args;
    struct comm *comm = call->group->comm;
    size_t bytes = call->count * element_bytes(call->element);
    const char *in = call->in;
    if (failure_is_kept(&comm->failure))
        return;
    ((struct mpi_group *)call->group)->sent_bytes += comm_least_sent_bytes(call);
    if (call->count > INT_MAX) {
        fail_comm(comm, "more elements than MPI can count", MPI_SUCCESS);
        return;
    }
    if (call->kind == COMM_BROADCAST && call->group->index == call->peer && bytes > 0 &&
        call->in != call->out)
        memcpy(call->out, call->in, bytes);
    if (call->kind == COMM_REDUCE_SCATTER && bytes > 0 &&
        call->out == in + (size_t)call->group->index * bytes)
        reduce_scatter_in_place(comm, call);
    else
        run_started(comm, call);
}

static void mpi_issue(const struct comm_call *call)
{
    call->group->comm->device->call(call->stream, run_call, call, sizeof *call);
}

static double mpi_sent_bytes(const struct group *group)
{
    return ((const struct mpi_group *)group)->sent_bytes;
}

/* --- opening and closing -------------------------------------------------------------------- */

/* Starts MPI, once per process. */
static bool start_mpi(const struct place *place, int *rank, struct err *err)
{
    int provided = MPI_THREAD_SINGLE, size = 0, is_started = 0;
    MPI_Initialized(&is_started);
    if (is_started)
        return err_set(err, ERR_UNAVAILABLE, "mpi", "can be opened only once per process");
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return err_set(err, ERR_UNAVAILABLE, "mpi", "MPI could not be started");
    if (provided < MPI_THREAD_SERIALIZED)
        return err_set(err, ERR_UNAVAILABLE, "mpi", "this MPI lets only one thread communicate");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != place->size || *rank != place->rank)
        return err_set(err, ERR_UNAVAILABLE, "mpi",
                       "MPI reports rank %d of %d, but the environment states rank %d of %d", *rank,
                       size, place->rank, place->size);
    return true;
}

static struct comm *mpi_open(const struct comm_options *options, struct err *err)
{
    int rank;
    if (!start_mpi(options->place, &rank, err))
        return NULL;
    struct comm *comm = arena_grow(NULL, sizeof *comm);
    *comm = (struct comm){ .device = options->device, .rank = rank };
    snprintf(comm->where, sizeof comm->where, "rank %d", rank);
    pthread_mutex_init(&comm->mutex, NULL);
    failure_init(&comm->failure);
    failure_listen(&comm->failure, &options->listener);
    MPI_Op_create(add_16_bits, 1, &comm->sum_16_bits);
    MPI_Op_create(take_larger, 1, &comm->max);
    return comm;
}

/* After a failure MPI_Finalize would wait for ranks that are gone; so it is not called. */
static void mpi_close(struct comm *comm)
{
    if (!comm)
        return;
    if (!failure_is_kept(&comm->failure)) {
        MPI_Op_free(&comm->sum_16_bits);
        MPI_Op_free(&comm->max);
        MPI_Finalize();
    }
    pthread_mutex_destroy(&comm->mutex);
    failure_release(&comm->failure);
    free(comm);
}

static struct group *mpi_group_new(struct comm *comm, const int *ranks, int num_ranks,
                                   struct err *err)
{
    bool is_member = num_ranks > 0;
    int index = is_member ? group_index_of(comm->rank, ranks, num_ranks) : 0;
    MPI_Comm members;
    pthread_mutex_lock(&comm->mutex);
    int status =
        MPI_Comm_split(MPI_COMM_WORLD, is_member ? ranks[0] : MPI_UNDEFINED, index, &members);
    pthread_mutex_unlock(&comm->mutex);
    if (status != MPI_SUCCESS) {
        fail_comm(comm, "MPI could not make a group", status);
        failure_check(&comm->failure, err);
    }
    if (status != MPI_SUCCESS || !is_member)
        return NULL;
    struct mpi_group *group = arena_grow(NULL, sizeof *group);
    *group = (struct mpi_group){ .base = group_of(comm, comm->rank, ranks, num_ranks),
                                 .members = members };
    return &group->base;
}

/* By the MPI standard all ranks free a communicator together, but Open MPI and MPICH do not wait
 * for other ranks. */
static void mpi_group_free(struct group *base)
{
    if (!base)
        return;
    struct mpi_group *group = (struct mpi_group *)base;
    if (!failure_is_kept(&base->comm->failure)) {
        pthread_mutex_lock(&base->comm->mutex);
        MPI_Comm_free(&group->members);
        pthread_mutex_unlock(&base->comm->mutex);
    }
    group_release(&group->base);
    free(group);
}

static bool mpi_poll(struct comm *comm, struct err *err)
{
    return failure_check(&comm->failure, err);
}

static void mpi_abort(struct comm *comm)
{
    fail_comm(comm, "communication was stopped", MPI_SUCCESS);
}

static const struct comm_api comm_mpi = {
    .name = "mpi",
    .device = "host",
    .open = mpi_open,
    .close = mpi_close,
    .group_new = mpi_group_new,
    .group_free = mpi_group_free,
    .issue = mpi_issue,
    .sent_bytes = mpi_sent_bytes,
    .poll = mpi_poll,
    .abort = mpi_abort,
};

const struct backend *simsearch_backend(void)
{
    static const struct comm_api *const comms[] = { &comm_mpi, NULL };
    static const struct backend backend = { .comms = comms };
    return &backend;
}
