/* exec/comm/comm.h - how ranks communicate: groups, collectives, messages.
 *
 * Three communicators implement this table on the host: `comm_local` (ranks are threads of one
 * process), `comm_tcp` (processes, over sockets) and MPI's (a plugin). The CUDA plugin implements
 * it on GPUs twice: NCCL, and `staged`, which copies through host memory and uses a host
 * communicator. A call is issued on a stream and returns at once; it runs in the stream's order.
 * Calls of one group must run one at a time and in the same order on all its ranks: issue them on
 * one stream, or order them by events.
 *
 * The order of summation depends only on the group's size and the number of elements, so the same
 * layout gives the same bits. It is the order of the ranks, with two exceptions: over TCP, fp32 and
 * fp64 messages above COMM_RING_BYTES are cut into one part per rank, and part p is summed in the
 * order of the ring that begins with rank p + 1; MPI and NCCL choose their own order. bf16 and fp16
 * are summed in fp32 and rounded once, except that MPI and NCCL also round partial sums.
 *
 * A call that fails leaves its output undefined and the communicator unusable: this and all later
 * calls end at once, and `poll` returns the reason. */
#ifndef EXEC_COMM_COMM_H
#define EXEC_COMM_COMM_H

#include "exec/comm/failure.h"
#include "exec/comm/place.h"
#include "exec/device/device.h"

#include <stdbool.h>
#include <stddef.h>

// clang-format off
#define COMM_KINDS(X)                                                                              \
    /* name            text              n ranks; `count` elements of ..., what is in and out */    \
    X(ALL_REDUCE,      "all_reduce",     "count in, count out: reduced over the ranks")            \
    X(ALL_GATHER,      "all_gather",     "count in, n count out: part i is the input of rank i")  \
    X(REDUCE_SCATTER,  "reduce_scatter", "n count in, count out: this rank's part, reduced")       \
    X(BROADCAST,       "broadcast",      "count in on `peer`, count out on all")                   \
    X(ALL_TO_ALL,      "all_to_all",     "n count in, part i to rank i; n count out, part i from rank i") \
    X(SEND,            "send",           "count in, to `peer`")                                    \
    X(RECV,            "recv",           "count out, from `peer`")                                 \
    X(SEND_RECV,       "send_recv",      "count in, to `peer`, and count out, from `source`, at once") \
    X(NEIGHBOURS,      "neighbours",     "count in, to each of `tells`; count out from each of `hears`") \
    X(BARRIER,         "barrier",        "nothing in or out: no rank leaves before all have come")

enum comm_kind {
#define X(name, text, meaning) COMM_##name,
    COMM_KINDS(X)
#undef X
};
#define X(name, text, meaning) +1
enum { NUM_COMM_KINDS = 0 COMM_KINDS(X) };
#undef X

/* BYTES are moved, never reduced. */
#define ELEMENTS(X)            \
    X(FP32,  "fp32",  4)       \
    X(FP64,  "fp64",  8)       \
    X(BF16,  "bf16",  2)       \
    X(FP16,  "fp16",  2)       \
    X(BYTES, "bytes", 1)

enum element {
#define X(name, text, size) ELEMENT_##name,
    ELEMENTS(X)
#undef X
};
#define X(name, text, size) +1
enum { NUM_ELEMENTS = 0 ELEMENTS(X) };
#undef X
// clang-format on

/* A maximum with a NaN among its operands is NaN, except that NCCL ignores NaN. */
enum reduction { REDUCTION_SUM, REDUCTION_MAX, NUM_REDUCTIONS };

extern const char *const comm_kind_names[NUM_COMM_KINDS + 1]; /* NULL-terminated */
extern const char *const element_names[NUM_ELEMENTS + 1];
extern const char *const reduction_names[NUM_REDUCTIONS + 1];
size_t element_bytes(enum element element);

enum { COMM_RING_BYTES = 64 << 10, COMM_MOST_NEIGHBOURS = 32 };

struct comm_call;
/* The fewest bytes that one rank of the group sends in a call with any algorithm, if all ranks send
 * equally much. Used for communicators whose library does not count bytes. */
double comm_least_sent_bytes(const struct comm_call *call);

struct comm;

/* A group as one of its members sees it; made by group_new. */
struct group {
    struct comm *comm;
    int index; /* this rank's index in the group */
    int size;
    const int *ranks; /* ranks of the world, `size` of them; owned by the group */
};

/* For communicators. group_index_of returns a rank's index among a group's members. group_of
 * returns the group as that rank sees it, with a copy of the members that group_release frees. */
int group_index_of(int rank, const int *ranks, int num_ranks);
struct group group_of(struct comm *comm, int rank, const int *ranks, int num_ranks);
void group_release(struct group *group);

/* One call, on memory of the device whose streams it is issued on. The caller owns `in` and `out`
 * and must not touch them until the call has run. ALL_REDUCE and BROADCAST may have in == out,
 * ALL_GATHER in == own part of out, REDUCE_SCATTER out == own part of in; otherwise they do not
 * overlap. Members are indices in the group; neighbours are distinct and never the caller
 * itself. */
struct comm_call {
    enum comm_kind kind;
    struct group *group;
    struct stream *stream;
    const void *in;
    void *out;
    size_t count; /* elements, see the table; 0 is fine */
    enum element element;
    enum reduction reduction;
    int peer, source;
    int num_neighbours; /* for NEIGHBOURS: number of neighbours, at least 1 */
    int tells[COMM_MOST_NEIGHBOURS], hears[COMM_MOST_NEIGHBOURS];
};

/* For communicators: SEND, RECV, SEND_RECV and NEIGHBOURS as lists of messages. `in` goes to each
 * of `to`; the i-th of `from` fills the i-th `count` elements of `out`. The lists point into the
 * call itself. */
struct comm_messages {
    const int *to, *from;
    int num_to, num_from;
};
struct comm_messages comm_messages(const struct comm_call *call);

/* While a rank waits for other ranks to arrive, `tell` reports the wait, and is_over ends it. */
struct comm_waits {
    void (*tell)(void *context,
                 const char *what); /* reports "for rank 3 to connect"; NULL: no report */
    void *context;
    const atomic_bool *is_over; /* set by another thread to make TCP give up; NULL: never */
};

struct comm_options {
    const struct place *place;       /* only `open` reads it */
    const struct device_api *device; /* the device whose streams calls are issued on */
    struct local_world *local_world; /* comm_local: the data that its threads share */
    double patience_s; /* how long `open` and `group_new` wait for the others; may be INFINITY */
    struct comm_waits waits;
    int most_blocks; /* NCCL: maximum number of thread blocks that a call may occupy; 0: no limit */
    /* Called for every failure that `poll` will report. Over TCP it is also called when `open`
     * failed because another rank was lost. comm_local never calls it. */
    struct failure_listener listener;
};

struct comm_api {
    const char *name;   /* "tcp" */
    const char *device; /* name of the device whose memory calls read and write: "host", "cuda" */

    /* Every rank calls it, and it returns when all ranks have called it. NULL with ERR_SYSTEM, or
     * ERR_UNAVAILABLE when the environment lacks what it needs. */
    struct comm *(*open)(const struct comm_options *options, struct err *err);
    /* All groups must have been freed. After an abort it does not wait for other ranks. */
    void (*close)(struct comm *comm);

    /* Partitions the world. All ranks make the same sequence of calls, each with the members of its
     * own group, listed in the same order on each member. num_ranks 0: this rank is in no group,
     * and the result is NULL without an error. NULL with ERR_SYSTEM when another rank cannot be
     * reached. */
    struct group *(*group_new)(struct comm *comm, const int *ranks, int num_ranks, struct err *err);
    /* call when the group's calls have run; accepts NULL */
    void (*group_free)(struct group *group);

    void (*issue)(const struct comm_call *call); /* copies the call */

    /* Bytes that this rank's calls in the group have moved so far, read while no call is under way.
     * In the sum over all members each byte counts once. Optional: NULL if the communicator does
     * not count. */
    double (*sent_bytes)(const struct group *group);

    /* False once a call failed, with the first failure: ERR_SYSTEM, where = "rank R". May be called
     * on any thread; never waits. */
    bool (*poll)(struct comm *comm, struct err *err);
    /* Callable on any thread. Every waiting or later call ends and fails. Other ranks fail when
     * they next wait for this one. */
    void (*abort)(struct comm *comm);
};

extern const struct comm_api comm_local;
extern const struct comm_api comm_tcp;

/* Data shared by the `size` threads of one process, each of which has its own comm_local. Free it
 * after the last comm_local is closed. When members make different calls, the call fails on all of
 * them. */
struct local_world;
struct local_world *local_world_new(int size);
void local_world_free(struct local_world *world);

#endif
