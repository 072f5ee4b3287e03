/* Ranks on GPUs, by NCCL. Every group is a communicator that ncclCommSplit splits off one root
 * communicator, so that calls of different groups never wait for one another.
 *
 * Communicators are non-blocking: an NCCL call returns at once, and this code polls until the
 * call's work is on its stream or the run is stopped. A separate thread polls NCCL ten times a
 * second to find later failures. NCCL's maximum ignores NaN, so no result depends on such a maximum
 * alone. */
#include "exec/cuda/comms_cuda.h"

#include "base/arena.h"
#include "base/clock.h"
#include "exec/cuda/device_cuda.h"
#include "exec/cuda/host_comm_cuda.h"

#include <nccl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct nccl_group {
    struct group base;
    struct nccl_group *next;
    /* NULL for a single rank, when this rank is no member, and after an abort */
    ncclComm_t members;
    double sent_bytes;
};

struct comm {
    int rank;
    char where[24];
    double patience_s;
    int most_blocks;           /* as in struct comm_options */
    ncclComm_t root;           /* NULL for a single rank, and after an abort */
    int *barrier;              /* two numbers on the GPU; barriers sum the first */
    pthread_mutex_t mutex;     /* guards NCCL's communicators, the list and num_settling */
    int num_settling;          /* calls that are being polled, which an abort must wait for */
    pthread_cond_t settled;    /* num_settling is 0 */
    pthread_cond_t ended;      /* is_over is set */
    struct nccl_group *groups; /* every group ever split off, including failed and freed ones */
    struct failure failure;
    atomic_bool is_over; /* aborted, or closing */
    pthread_t watcher;
    bool is_watched;
};

/* --- failures ----------------------------------------------------------------------------- */

static bool keep(struct comm *comm, const char *what, const char *why)
{
    struct err err = { 0 };
    err_set(&err, ERR_SYSTEM, comm->where, "%s: %s", what, why);
    failure_keep(&comm->failure, &err);
    return false;
}

enum { MOST_WORDS = 200 };

/* The text of a status and its cause, which NCCL reports separately. */
static const char *words_of(ncclResult_t status, char words[MOST_WORDS])
{
    const char *cause = ncclGetLastError(NULL);
    snprintf(words, MOST_WORDS, "%s%s%s", ncclGetErrorString(status), cause[0] ? ": " : "", cause);
    return words;
}

static bool check(struct comm *comm, ncclResult_t status, const char *what)
{
    char words[MOST_WORDS];
    if (status == ncclSuccess || status == ncclInProgress)
        return true;
    return keep(comm, what, words_of(status, words));
}

static bool is_lost(const struct comm *comm)
{
    return atomic_load(&comm->is_over) || failure_is_kept(&comm->failure);
}

/* Waits until the operation on `members` is done, at most patience_s (0: no limit). */
static bool settle(struct comm *comm, ncclComm_t members, const char *what, double patience_s)
{
    ncclResult_t state = ncclInProgress;
    double end_s = clock_now_s() + patience_s;
    for (int tries = 0; state == ncclInProgress && !is_lost(comm); tries++) {
        if (!check(comm, ncclCommGetAsyncError(members, &state), what))
            return false;
        if (patience_s > 0 && clock_now_s() > end_s)
            return keep(comm, what, "the other ranks did not connect");
        if (state == ncclInProgress && tries > 1000)
            nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
        else if (state == ncclInProgress)
            sched_yield();
    }
    return !is_lost(comm) && check(comm, state, what);
}

/* --- calls -------------------------------------------------------------------------------- */

static ncclDataType_t type_of(enum element element)
{
    switch (element) {
    case ELEMENT_FP32:
        return ncclFloat32;
    case ELEMENT_FP64:
        return ncclFloat64;
    case ELEMENT_BF16:
        return ncclBfloat16;
    case ELEMENT_FP16:
        return ncclFloat16;
    case ELEMENT_BYTES:
        break;
    }
    return ncclUint8;
}

static ncclResult_t exchange(const struct comm_call *call, ncclComm_t members, cudaStream_t stream)
{
    ncclDataType_t type = type_of(call->element);
    size_t bytes = call->count * element_bytes(call->element);
    struct comm_messages messages = comm_messages(call);
    ncclResult_t status = ncclGroupStart();
    for (int i = 0; i < messages.num_to; i++)
        ncclSend(call->in, call->count, type, messages.to[i], members, stream);
    for (int i = 0; i < messages.num_from; i++)
        ncclRecv((char *)call->out + (size_t)i * bytes, call->count, type, messages.from[i],
                 members, stream);
    for (int i = 0; call->kind == COMM_ALL_TO_ALL && i < call->group->size; i++) {
        size_t at = (size_t)i * bytes;
        ncclSend((const char *)call->in + at, call->count, type, i, members, stream);
        ncclRecv((char *)call->out + at, call->count, type, i, members, stream);
    }
    ncclResult_t ended = ncclGroupEnd(); /* returns the failures of the calls in the group */
    return status == ncclSuccess ? ended : status;
}

static ncclResult_t start(const struct comm_call *call, ncclComm_t members, cudaStream_t stream)
{
    ncclDataType_t type = type_of(call->element);
    ncclRedOp_t sum = call->reduction == REDUCTION_MAX ? ncclMax : ncclSum;
    int *barrier = call->group->comm->barrier;
    switch (call->kind) {
    case COMM_ALL_REDUCE:
        return ncclAllReduce(call->in, call->out, call->count, type, sum, members, stream);
    case COMM_ALL_GATHER:
        return ncclAllGather(call->in, call->out, call->count, type, members, stream);
    case COMM_REDUCE_SCATTER:
        return ncclReduceScatter(call->in, call->out, call->count, type, sum, members, stream);
    case COMM_BROADCAST:
        return ncclBroadcast(call->in, call->out, call->count, type, call->peer, members, stream);
    case COMM_SEND:
        return ncclSend(call->in, call->count, type, call->peer, members, stream);
    case COMM_RECV:
        return ncclRecv(call->out, call->count, type, call->peer, members, stream);
    case COMM_ALL_TO_ALL:
    case COMM_SEND_RECV:
    case COMM_NEIGHBOURS:
        return exchange(call, members, stream);
    case COMM_BARRIER:
        return ncclAllReduce(barrier, barrier, 1, ncclInt32, ncclSum, members, stream);
    }
    return ncclInvalidArgument;
}

/* In a group of one the input is the result. */
static void run_alone(const struct comm_call *call)
{
    if (call->kind != COMM_BARRIER && call->out != call->in)
        cuda_stream_copy(call->stream, call->out, call->in,
                         call->count * element_bytes(call->element));
}

/* Calls NCCL, and keeps its communicators until end_call; false: nothing is to be polled. */
static bool begin_call(struct nccl_group *group, const struct comm_call *call)
{
    struct comm *comm = group->base.comm;
    pthread_mutex_lock(&comm->mutex);
    group->sent_bytes += comm_least_sent_bytes(call);
    bool ok =
        !is_lost(comm) && device_use(call->stream->device) &&
        check(comm, start(call, group->members, call->stream->cuda), comm_kind_names[call->kind]);
    comm->num_settling += ok;
    pthread_mutex_unlock(&comm->mutex);
    return ok;
}

static void end_call(struct comm *comm)
{
    pthread_mutex_lock(&comm->mutex);
    if (--comm->num_settling == 0)
        pthread_cond_broadcast(&comm->settled);
    pthread_mutex_unlock(&comm->mutex);
}

static void nccl_issue(const struct comm_call *call)
{
    struct nccl_group *group = (struct nccl_group *)call->group;
    struct comm *comm = group->base.comm;
    if (group->base.size == 1) {
        run_alone(call);
        return;
    }
    if (begin_call(group, call)) {
        settle(comm, group->members, comm_kind_names[call->kind], 0);
        end_call(comm);
    }
}

static double nccl_sent_bytes(const struct group *group)
{
    return ((const struct nccl_group *)group)->sent_bytes;
}

/* --- the watching thread ------------------------------------------------------------------ */

/* Aborts all communicators; the caller holds the mutex. Waits on the GPU then end. All aborts are
 * in one NCCL group, because each abort waits for its kernels, which may be queued behind those of
 * another communicator. The root comes first, as its abort waits for a running split. */
static void drop_all(struct comm *comm)
{
    while (comm->num_settling > 0)
        pthread_cond_wait(&comm->settled, &comm->mutex);
    ncclGroupStart();
    ncclCommAbort(comm->root);
    comm->root = NULL;
    for (struct nccl_group *group = comm->groups; group; group = group->next) {
        ncclCommAbort(group->members);
        group->members = NULL;
    }
    ncclGroupEnd();
}

static void look_at(struct comm *comm, ncclComm_t members)
{
    ncclResult_t state = ncclSuccess;
    if (members && check(comm, ncclCommGetAsyncError(members, &state), "NCCL"))
        check(comm, state, "NCCL");
}

/* Waits until the communicator ends, a tenth of a second at most. */
static bool has_ended(struct comm *comm)
{
    enum { PERIOD_NS = 100000000, SECOND_NS = 1000000000 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PERIOD_NS;
    until.tv_sec += until.tv_nsec / SECOND_NS;
    until.tv_nsec %= SECOND_NS;
    if (!atomic_load(&comm->is_over))
        pthread_cond_timedwait(&comm->ended, &comm->mutex, &until);
    return atomic_load(&comm->is_over);
}

static void *watch(void *context)
{
    struct comm *comm = context;
    pthread_mutex_lock(&comm->mutex);
    while (!has_ended(comm)) {
        look_at(comm, comm->root);
        for (struct nccl_group *group = comm->groups; group; group = group->next)
            look_at(comm, group->members);
        if (failure_is_kept(&comm->failure))
            drop_all(comm);
    }
    pthread_mutex_unlock(&comm->mutex);
    return NULL;
}

static void nccl_abort(struct comm *comm)
{
    keep(comm, "NCCL", "communication was stopped");
    pthread_mutex_lock(&comm->mutex);
    drop_all(comm);
    pthread_mutex_unlock(&comm->mutex);
}

static bool nccl_poll(struct comm *comm, struct err *err)
{
    return failure_check(&comm->failure, err);
}

/* --- opening and closing ------------------------------------------------------------------ */

/* Broadcasts NCCL's id by a host communicator, which is then closed. */
static bool meet(const struct comm_options *options, ncclUniqueId *id, struct err *err)
{
    struct host_comm host;
    char words[MOST_WORDS];
    const struct place *place = options->place;
    ncclResult_t status = place->rank == 0 ? ncclGetUniqueId(id) : ncclSuccess;
    if (status != ncclSuccess)
        return err_set(err, ERR_SYSTEM, "nccl", "ncclGetUniqueId failed: %s",
                       words_of(status, words));
    if (!host_comm_open(options, &host, err))
        return false;
    bool ok = host_comm_tell(&host, place->size, id, sizeof *id, err);
    host_comm_close(&host);
    return ok;
}

/* NCCL refuses two ranks on one GPU of a host, but takes the host's name from the environment.
 * Ranks that share a GPU, in tests, therefore claim to be on different hosts and talk over
 * sockets. */
static void seem_apart(int rank)
{
    const char *shares = getenv("SIMSEARCH_SHARE_GPUS");
    char host[32];
    if (!shares || strcmp(shares, "1") != 0)
        return;
    snprintf(host, sizeof host, "rank%d", rank);
    setenv("NCCL_HOSTID", host, 0);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    setenv("NCCL_NET", "Socket", 0);
    setenv("NCCL_MNNVL_ENABLE", "0", 0);
    setenv("NCCL_ALGO", "Ring", 0);
    setenv("NCCL_PROTO", "Simple", 0);
    setenv("NCCL_MAX_CTAS", "2", 0);
}

/* Configures a communicator to use at most `most_blocks` thread blocks; 0: no limit. */
static ncclConfig_t config_of(int most_blocks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (most_blocks > 0) {
        config.minCTAs = 1;
        config.maxCTAs = most_blocks;
    }
    return config;
}

/* Connects all ranks now; otherwise the first call on a link would wait for the other rank. The
 * root communicator gets the fewest resources, as it runs no collectives. */
static bool open_root(struct comm *comm, const struct comm_options *options, struct err *err)
{
    ncclUniqueId id;
    ncclConfig_t config = config_of(1);
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    seem_apart(comm->rank);
    if (!meet(options, &id, err))
        return false;
    bool ok =
        check(comm,
              ncclCommInitRankConfig(&comm->root, options->place->size, id, comm->rank, &config),
              "ncclCommInitRank") &&
        settle(comm, comm->root, "ncclCommInitRank", comm->patience_s);
    if (cudaMalloc((void **)&comm->barrier, 2 * sizeof *comm->barrier) != cudaSuccess ||
        cudaMemset(comm->barrier, 0, 2 * sizeof *comm->barrier) != cudaSuccess)
        ok = keep(comm, "cudaMalloc", "no memory for barriers");
    return ok || failure_check(&comm->failure, err);
}

/* NCCL ends a communicator only when all its ranks on the machine do, and ranks free groups in
 * different orders: in a ring of links each rank would wait for the next. So all communicators are
 * ended together here. */
static void destroy_all(struct comm *comm)
{
    ncclGroupStart();
    for (struct nccl_group *group = comm->groups; group; group = group->next)
        ncclCommDestroy(group->members);
    ncclGroupEnd();
    ncclCommDestroy(comm->root);
}

static void release_groups(struct comm *comm)
{
    while (comm->groups) {
        struct nccl_group *group = comm->groups;
        comm->groups = group->next;
        group_release(&group->base);
        free(group);
    }
}

static void nccl_close(struct comm *comm)
{
    if (!comm)
        return;
    pthread_mutex_lock(&comm->mutex);
    atomic_store(&comm->is_over, true);
    pthread_cond_signal(&comm->ended);
    pthread_mutex_unlock(&comm->mutex);
    if (comm->is_watched)
        pthread_join(comm->watcher, NULL);
    if (failure_is_kept(&comm->failure))
        drop_all(comm);
    else if (comm->root)
        destroy_all(comm);
    release_groups(comm);
    if (comm->barrier)
        cudaFree(comm->barrier);
    pthread_cond_destroy(&comm->ended);
    pthread_cond_destroy(&comm->settled);
    pthread_mutex_destroy(&comm->mutex);
    failure_release(&comm->failure);
    free(comm);
}

/* NCCL uses the calling thread's current GPU, which is that of the device opened before. */
static struct comm *nccl_open(const struct comm_options *options, struct err *err)
{
    struct comm *comm = arena_grow(NULL, sizeof *comm);
    *comm = (struct comm){ .rank = options->place->rank,
                           .patience_s = options->patience_s,
                           .most_blocks = options->most_blocks };
    snprintf(comm->where, sizeof comm->where, "rank %d", comm->rank);
    pthread_mutex_init(&comm->mutex, NULL);
    pthread_cond_init(&comm->settled, NULL);
    pthread_cond_init(&comm->ended, NULL);
    failure_init(&comm->failure);
    failure_listen(&comm->failure, &options->listener);
    if (options->place->size == 1)
        return comm;
    if (open_root(comm, options, err)) {
        comm->is_watched = pthread_create(&comm->watcher, NULL, watch, comm) == 0;
        if (comm->is_watched)
            return comm;
        err_set(err, ERR_SYSTEM, comm->where, "cannot start a thread to watch NCCL");
    }
    nccl_close(comm);
    return NULL;
}

/* --- groups ------------------------------------------------------------------------------- */

static struct nccl_group *new_group(struct comm *comm, const int *ranks, int num_ranks)
{
    struct nccl_group *group = arena_grow(NULL, sizeof *group);
    *group = (struct nccl_group){ .base = { .comm = comm } };
    if (num_ranks > 0)
        group->base = group_of(comm, comm->rank, ranks, num_ranks);
    pthread_mutex_lock(&comm->mutex);
    group->next = comm->groups;
    comm->groups = group;
    pthread_mutex_unlock(&comm->mutex);
    return group;
}

static bool has_arrived(struct comm *comm)
{
    double end_s = clock_now_s() + comm->patience_s;
    cudaError_t status = cudaErrorNotReady;
    while (status == cudaErrorNotReady && clock_now_s() < end_s && !is_lost(comm))
        status = cudaStreamQuery(NULL);
    return status == cudaSuccess || keep(comm, "the first message", cudaGetErrorString(status));
}

/* Sends a pair's first messages in both directions at once, because NCCL connects on first use. */
static bool greet(struct comm *comm, ncclComm_t members, int index)
{
    ncclGroupStart();
    ncclSend(comm->barrier, 1, ncclInt32, 1 - index, members, NULL);
    ncclRecv(comm->barrier + 1, 1, ncclInt32, 1 - index, members, NULL);
    return check(comm, ncclGroupEnd(), "the first message") &&
           settle(comm, members, "the first message", comm->patience_s) && has_arrived(comm);
}

static bool join_members(struct comm *comm, struct nccl_group *group)
{
    return settle(comm, group->members, "a group", comm->patience_s) &&
           (group->base.size != 2 || greet(comm, group->members, group->base.index));
}

/* All ranks split the root together, whether they are in a group of several or not. A thread of
 * NCCL writes `members`, possibly after the time limit. */
static bool split(struct comm *comm, struct nccl_group *group, struct err *err)
{
    bool is_member = group->base.size > 1;
    int color = is_member ? group->base.ranks[0] : NCCL_SPLIT_NOCOLOR;
    ncclConfig_t config = config_of(comm->most_blocks);
    pthread_mutex_lock(&comm->mutex);
    bool ok =
        !is_lost(comm) &&
        check(comm, ncclCommSplit(comm->root, color, group->base.index, &group->members, &config),
              "a group") &&
        settle(comm, comm->root, "a group", comm->patience_s) &&
        (!is_member || join_members(comm, group));
    pthread_mutex_unlock(&comm->mutex);
    return ok || failure_check(&comm->failure, err);
}

static struct group *nccl_group_new(struct comm *comm, const int *ranks, int num_ranks,
                                    struct err *err)
{
    struct nccl_group *group = new_group(comm, ranks, num_ranks);
    bool ok = !comm->root || split(comm, group, err);
    return ok && num_ranks > 0 ? &group->base : NULL;
}

/* Does nothing: nccl_close frees groups. */
static void nccl_group_free(struct group *base)
{
    (void)base;
}

const struct comm_api comm_nccl = {
    .name = "nccl",
    .device = "cuda",
    .open = nccl_open,
    .close = nccl_close,
    .group_new = nccl_group_new,
    .group_free = nccl_group_free,
    .issue = nccl_issue,
    .sent_bytes = nccl_sent_bytes,
    .poll = nccl_poll,
    .abort = nccl_abort,
};
