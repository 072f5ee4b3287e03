#include <nccl.h>

#include "kernels/host/round.h"
#include "tests/cuda_on_host/nccl_board.h"
#include "tests/cuda_on_host/runtime.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct ncclComm {
    struct board *board;
    char name[128];
    int rank, size, num_splits;
    atomic_int num_holders; /* references: one by the owner and one by each running call */
    atomic_int polls_left;  /* number of polls for which a call still appears to be running */
    atomic_bool has_failed, is_splitting;
    bool blocks;
    ncclComm_t next_ending;
};

static __thread bool is_grouped;
static __thread ncclComm_t ending; /* communicators to end when the current group ends */

/* --- communicators ------------------------------------------------------------------------ */

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : "an error";
}

static _Atomic(const char *) last_error = "";

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return atomic_load(&last_error);
}

static void fail(ncclComm_t comm)
{
    atomic_store(&last_error, "a rank is gone");
    atomic_store(&comm->has_failed, true);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static atomic_int count;
    snprintf(id->internal, sizeof id->internal, "/simsearch-nccl-%ld-%d-%ld", (long)getpid(),
             atomic_fetch_add(&count, 1), (long)time(NULL));
    return ncclSuccess;
}

static ncclResult_t join(ncclComm_t *out, const char *name, int rank, int size, bool blocks)
{
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (!comm || size > BOARD_RANKS)
        return ncclInvalidArgument;
    snprintf(comm->name, sizeof comm->name, "%s", name);
    comm->rank = rank;
    comm->size = size;
    comm->blocks = blocks;
    atomic_init(&comm->num_holders, 1);
    atomic_init(&comm->polls_left, blocks ? 0 : 3);
    comm->board = board_open(name, size);
    *out = comm;
    if (!comm->board)
        return ncclSystemError;
    return blocks ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    return join(comm, id.internal, rank, size, config->blocking);
}

/* Returns this rank's index among the ranks of its color, ordered by key. */
static int place_in(const struct ncclComm *comm, int *size)
{
    const int *colors = comm->board->colors, *keys = comm->board->keys;
    int place = *size = 0;
    for (int i = 0; i < comm->size; i++) {
        bool is_mine = colors[i] == colors[comm->rank];
        *size += is_mine;
        place += is_mine &&
                 (keys[i] < keys[comm->rank] || (keys[i] == keys[comm->rank] && i < comm->rank));
    }
    return place;
}

struct split {
    ncclComm_t parent;
    int color, key;
    ncclComm_t *members; /* this member is written last, also on failure */
    bool blocks;
};

static ncclResult_t make_members(const struct split *split, ncclComm_t *members)
{
    ncclComm_t comm = split->parent;
    char name[sizeof comm->name];
    int size;
    comm->board->colors[comm->rank] = split->color;
    comm->board->keys[comm->rank] = split->key;
    if (!board_meet(comm->board, comm->size))
        return ncclRemoteError;
    int rank = place_in(comm, &size);
    if (!board_meet(comm->board, comm->size))
        return ncclRemoteError;
    int length =
        snprintf(name, sizeof name, "%.100s.%d.%d", comm->name, comm->num_splits++, split->color);
    if (split->color == NCCL_SPLIT_NOCOLOR || length >= (int)sizeof name)
        return length < (int)sizeof name ? ncclSuccess : ncclInternalError;
    return join(members, name, rank, size, split->blocks);
}

static void *run_split(void *context)
{
    struct split *split = context;
    ncclComm_t parent = split->parent, members = NULL;
    ncclResult_t result = make_members(split, &members);
    if (__atomic_exchange_n(split->members, members, __ATOMIC_ACQ_REL)) {
        fprintf(stderr, "NCCL: the memory for a split's communicator has been reused\n");
        abort();
    }
    if (result != ncclSuccess && result != ncclInProgress)
        fail(parent);
    atomic_store(&parent->is_splitting, false);
    free(split);
    return NULL;
}

static bool is_under_way(ncclComm_t comm)
{
    return atomic_load(&comm->is_splitting) || atomic_load(&comm->polls_left) > 0;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *members,
                           ncclConfig_t *config)
{
    struct split *split = malloc(sizeof *split);
    pthread_t thread;
    if (!split || is_under_way(comm)) {
        free(split);
        return ncclInvalidArgument;
    }
    *members = NULL;
    *split = (struct split){ comm, color, key, members, config->blocking };
    atomic_store(&comm->is_splitting, true);
    if (comm->blocks) {
        run_split(split);
        return atomic_load(&comm->has_failed) ? ncclRemoteError : ncclSuccess;
    }
    if (pthread_create(&thread, NULL, run_split, split) != 0)
        return ncclSystemError;
    pthread_detach(thread);
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    *state = atomic_load(&comm->has_failed) ? ncclRemoteError
             : is_under_way(comm)           ? ncclInProgress
                                            : ncclSuccess;
    if (atomic_load(&comm->polls_left) > 0)
        atomic_fetch_sub(&comm->polls_left, 1);
    return ncclSuccess;
}

static void let_go(ncclComm_t comm)
{
    if (atomic_fetch_sub(&comm->num_holders, 1) > 1)
        return;
    board_close(comm->board);
    free(comm);
}

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

/* Waits, as NCCL does, for the streams of the communicator's calls, including earlier work on them,
 * and then for the other ranks. */
static void *finish(void *context)
{
    ncclComm_t comm = context;
    while (atomic_load(&comm->num_holders) > 1)
        wait_a_little();
    if (!board_meet(comm->board, comm->size) && !atomic_load(&comm->board->is_aborted)) {
        fprintf(stderr, "NCCL: rank %d ends communicator %s, but other ranks do not\n", comm->rank,
                comm->name);
        abort();
    }
    let_go(comm);
    return NULL;
}

/* Ends all communicators of the group concurrently. */
static void finish_ending(void)
{
    enum { MOST_ENDING = 64 };
    pthread_t threads[MOST_ENDING];
    int count = 0;
    for (ncclComm_t next; ending && count < MOST_ENDING; ending = next) {
        next = ending->next_ending;
        pthread_create(&threads[count++], NULL, finish, ending);
    }
    while (count > 0)
        pthread_join(threads[--count], NULL);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    comm->next_ending = ending;
    ending = comm;
    if (!is_grouped)
        finish_ending();
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (comm)
        atomic_store(&comm->board->is_aborted, true);
    while (comm && atomic_load(&comm->is_splitting))
        wait_a_little();
    return ncclCommDestroy(comm);
}

/* --- elements ----------------------------------------------------------------------------- */

static size_t bytes_of(ncclDataType_t type)
{
    return type == ncclFloat64                           ? 8
           : type == ncclFloat32 || type == ncclInt32    ? 4
           : type == ncclFloat16 || type == ncclBfloat16 ? 2
                                                         : 1;
}

static double load(ncclDataType_t type, const void *values, size_t i)
{
    float value = 0;
    if (type == ncclBfloat16)
        bf16_unpack(1, (const uint16_t *)values + i, &value);
    else if (type == ncclFloat16)
        fp16_unpack(1, (const uint16_t *)values + i, &value);
    else if (type == ncclInt32)
        return ((const int *)values)[i];
    else
        return type == ncclFloat64 ? ((const double *)values)[i]
                                   : (double)((const float *)values)[i];
    return (double)value;
}

static void store(ncclDataType_t type, double value, void *values, size_t i)
{
    float narrow = (float)value;
    if (type == ncclBfloat16)
        bf16_pack(1, &narrow, (uint16_t *)values + i);
    else if (type == ncclFloat16)
        fp16_pack(1, &narrow, (uint16_t *)values + i);
    else if (type == ncclInt32)
        ((int *)values)[i] = (int)value;
    else if (type == ncclFloat64)
        ((double *)values)[i] = value;
    else
        ((float *)values)[i] = narrow;
}

static double add(ncclDataType_t type, double a, double b)
{
    return type == ncclFloat64 || type == ncclInt32 ? a + b : (double)((float)a + (float)b);
}

/* --- collectives -------------------------------------------------------------------------- */

struct collective {
    void (*function)(const struct collective *call, size_t first, size_t count);
    ncclComm_t comm;
    const char *in;
    char *out;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
};

/* Copies `bytes` at `mine` to this rank's slot and waits for all ranks; false when a rank is
 * gone. */
static bool show(const struct collective *call, const char *mine, size_t bytes)
{
    memcpy(call->comm->board->slots[call->comm->rank], mine, bytes);
    return board_meet(call->comm->board, call->comm->size);
}

static void reduce_slots(const struct collective *call, char *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double value = load(call->type, call->comm->board->slots[0], i);
        for (int rank = 1; rank < call->comm->size; rank++) {
            double other = load(call->type, call->comm->board->slots[rank], i);
            value = call->op == ncclMax ? fmax(value, other) : add(call->type, value, other);
        }
        store(call->type, value, out, i);
    }
}

static void all_reduce(const struct collective *call, size_t first, size_t count)
{
    size_t bytes = bytes_of(call->type);
    if (show(call, call->in + first * bytes, count * bytes))
        reduce_slots(call, call->out + first * bytes, count);
}

static void all_gather(const struct collective *call, size_t first, size_t count)
{
    size_t bytes = bytes_of(call->type);
    if (!show(call, call->in + first * bytes, count * bytes))
        return;
    for (size_t rank = 0; rank < (size_t)call->comm->size; rank++)
        memcpy(call->out + (rank * call->count + first) * bytes, call->comm->board->slots[rank],
               count * bytes);
}

static void reduce_scatter(const struct collective *call, size_t first, size_t count)
{
    size_t bytes = bytes_of(call->type);
    for (int part = 0; part < call->comm->size; part++) {
        const char *mine = call->in + ((size_t)part * call->count + first) * bytes;
        if (!show(call, mine, count * bytes))
            return;
        if (part == call->comm->rank)
            reduce_slots(call, call->out + first * bytes, count);
        if (!board_meet(call->comm->board, call->comm->size))
            return;
    }
}

static void broadcast(const struct collective *call, size_t first, size_t count)
{
    size_t bytes = bytes_of(call->type);
    const char *mine = call->comm->rank == call->root ? call->in + first * bytes : NULL;
    if (show(call, mine, mine ? count * bytes : 0))
        memcpy(call->out + first * bytes, call->comm->board->slots[call->root], count * bytes);
}

/* Runs a collective in portions that fit a slot of the shared memory. */
static void run_collective(void *args)
{
    const struct collective *call = args;
    size_t room = SLOT_BYTES / bytes_of(call->type);
    bool ok = true;
    for (size_t first = 0; ok && first < call->count; first += room) {
        size_t left = call->count - first;
        call->function(call, first, left < room ? left : room);
        ok = board_meet(call->comm->board, call->comm->size);
    }
    if (!ok)
        fail(call->comm);
    let_go(call->comm);
}

/* Begins a call. With a non-blocking communicator it stays in progress for some polls. */
static ncclResult_t begin(ncclComm_t comm, cudaError_t status)
{
    if (status != cudaSuccess)
        return ncclUnhandledCudaError;
    if (comm->blocks)
        return ncclSuccess;
    atomic_store(&comm->polls_left, 2);
    return ncclInProgress;
}

static ncclResult_t issue(cudaStream_t stream, const struct collective *call)
{
    if (is_under_way(call->comm))
        return ncclInvalidArgument;
    if (call->count == 0)
        return ncclSuccess;
    atomic_fetch_add(&call->comm->num_holders, 1);
    return begin(call->comm, runtime_issue(stream, run_collective, call, sizeof *call));
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return issue(stream, &(struct collective){ all_reduce, comm, in, out, count, type, op, 0 });
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return issue(stream,
                 &(struct collective){ all_gather, comm, in, out, count, type, ncclSum, 0 });
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return issue(stream, &(struct collective){ reduce_scatter, comm, in, out, count, type, op, 0 });
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return issue(stream,
                 &(struct collective){ broadcast, comm, in, out, count, type, ncclSum, root });
}

/* --- messages ----------------------------------------------------------------------------- */

enum { MOST_MESSAGES = 2 * BOARD_RANKS };

struct message {
    char *at;
    size_t bytes_left;
    int peer;
    bool is_sent;
};

struct messages {
    ncclComm_t comm;
    cudaStream_t stream;
    int count;
    struct message at[MOST_MESSAGES];
};

/* Moves a part of a message through the mailbox; returns whether any bytes moved. */
static bool move(const struct ncclComm *comm, struct message *message)
{
    struct board *board = comm->board;
    struct mailbox *box = message->is_sent ? &board->mailboxes[comm->rank][message->peer]
                                           : &board->mailboxes[message->peer][comm->rank];
    size_t bytes = message->bytes_left < MAILBOX_BYTES ? message->bytes_left : MAILBOX_BYTES;
    if (bytes == 0 || (atomic_load(&box->bytes) == 0) != message->is_sent)
        return false;
    if (message->is_sent)
        memcpy(box->text, message->at, bytes);
    else
        memcpy(message->at, box->text, bytes);
    atomic_store(&box->bytes, message->is_sent ? (int)bytes : 0);
    message->at += bytes;
    message->bytes_left -= bytes;
    return true;
}

static void run_messages(void *args)
{
    struct messages *messages = args;
    struct ncclComm *comm = messages->comm;
    size_t left = 1;
    for (long tries = 0; left > 0;) {
        bool has_moved = false;
        left = 0;
        for (int i = 0; i < messages->count; i++) {
            has_moved = move(comm, &messages->at[i]) || has_moved;
            left += messages->at[i].bytes_left;
        }
        if (has_moved)
            tries = 0;
        else if (left > 0 && !board_wait(comm->board, &tries))
            break;
    }
    if (left > 0)
        fail(comm);
    let_go(comm);
}

static __thread struct messages group;

static ncclResult_t issue_group(void)
{
    struct messages messages = group;
    group.count = 0;
    if (messages.count == 0)
        return ncclSuccess;
    if (is_under_way(messages.comm))
        return ncclInvalidArgument;
    atomic_fetch_add(&messages.comm->num_holders, 1);
    return begin(messages.comm,
                 runtime_issue(messages.stream, run_messages, &messages, sizeof messages));
}

static ncclResult_t add_message(struct message message, ncclComm_t comm, cudaStream_t stream)
{
    bool is_first = group.count == 0;
    if (group.count == MOST_MESSAGES ||
        (!is_first && (group.comm != comm || group.stream != stream)))
        return ncclInvalidUsage;
    group.comm = comm;
    group.stream = stream;
    group.at[group.count++] = message;
    return is_grouped ? ncclSuccess : issue_group();
}

ncclResult_t ncclGroupStart(void)
{
    is_grouped = true;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    is_grouped = false;
    finish_ending();
    return issue_group();
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add_message((struct message){ (char *)in, count * bytes_of(type), peer, true }, comm,
                       stream);
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return add_message((struct message){ out, count * bytes_of(type), peer, false }, comm, stream);
}
