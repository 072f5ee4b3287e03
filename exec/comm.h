/* exec/comm.h - what ranks tell each other: groups, collectives, messages.
 *
 * Three communicators offer this table on the host: `comm_local` (ranks are threads of one
 * process), `comm_tcp` (processes, over sockets) and MPI's (a plugin). Two do on GPUs, of the CUDA
 * plugin: NCCL, and `staged`, which goes through the host's memory and one of the former. A call is
 * issued on a stream and returns at once; it runs after what was issued there before, and what is
 * issued after it finds its result. Calls of one group run one at a time and in the same order on
 * all its ranks: issue them on one stream, or put events between them.
 *
 * Sums are made in an order that depends on nothing but the group's size and the number of
 * elements: the same layout gives the same bits. The order is that of the ranks, but for messages
 * above COMM_RING_BYTES in fp32 and fp64 over TCP, where part p (of as many as there are ranks)
 * begins with rank p + 1 and goes round, and for MPI, whose own algorithms decide. bf16 and
 * fp16 are summed in fp32 and rounded once, but by MPI after every addition.
 *
 * A call that fails leaves its output undefined and the communicator unusable: it and all later
 * ones end at once, and `poll` says why. */
#ifndef EXEC_COMM_H
#define EXEC_COMM_H

#include "exec/device.h"
#include "exec/failure.h"
#include "exec/place.h"

#include <stdbool.h>
#include <stddef.h>

// clang-format off
#define COMM_KINDS(X)                                                                              \
    /* name            text              n ranks; `count` elements of ..., what is in and out */    \
    X(ALL_REDUCE,      "all_reduce",     "count in, count out: reduced over the ranks")            \
    X(ALL_GATHER,      "all_gather",     "count in, n count out: those of rank 0, of rank 1 ...")  \
    X(REDUCE_SCATTER,  "reduce_scatter", "n count in, count out: one's own part, reduced")         \
    X(BROADCAST,       "broadcast",      "count in on `peer`, count out on all")                   \
    X(ALL_TO_ALL,      "all_to_all",     "n count in, part i to rank i; n count out, part i from it") \
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

/* The maximum of anything and a NaN is a NaN. */
enum reduction { REDUCTION_SUM, REDUCTION_MAX, NUM_REDUCTIONS };

extern const char *const comm_kind_names[NUM_COMM_KINDS + 1]; /* NULL-terminated */
extern const char *const element_names[NUM_ELEMENTS + 1];
extern const char *const reduction_names[NUM_REDUCTIONS + 1];
size_t element_bytes(enum element element);

enum { COMM_RING_BYTES = 64 << 10, COMM_MOST_NEIGHBOURS = 32 };

struct comm_call;
/* What one rank of the group sends in it at least, whatever the algorithm, each rank an equal
 * share: the count of communicators whose library does not tell. */
double comm_least_sent_bytes(const struct comm_call *call);

struct comm;

/* As its members see it; made by group_new. */
struct group {
    struct comm *comm;
    int index; /* this rank's place in it */
    int size;
    const int *ranks; /* of the world, `size` of them; owned by the group */
};

/* For communicators: a rank's place among the members of a group, and the group as it sees it, with
 * a copy of the members that group_release frees. */
int group_index_of(int rank, const int *ranks, int num_ranks);
struct group group_of(struct comm *comm, int rank, const int *ranks, int num_ranks);
void group_release(struct group *group);

/* One call, on memory of the device whose streams it is issued on. `in` and `out` stay the
 * caller's, and untouched, until the call has run. ALL_REDUCE and BROADCAST may have in == out,
 * ALL_GATHER in == own part of out, REDUCE_SCATTER out == own part of in; otherwise they do not
 * overlap. Members are indices in the group; neighbours are distinct, and others than oneself. */
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
    int num_neighbours; /* of NEIGHBOURS: 1 or more */
    int tells[COMM_MOST_NEIGHBOURS], hears[COMM_MOST_NEIGHBOURS];
};

/* For communicators: what SEND, RECV, SEND_RECV and NEIGHBOURS are made of. `in` goes to each
 * of `to`; what comes from the i-th of `from` is the i-th `count` elements of `out`. Within the
 * call's own memory; nothing of other calls. */
struct comm_messages {
    const int *to, *from;
    int num_to, num_from;
};
struct comm_messages comm_messages(const struct comm_call *call);

/* What a rank does while it waits for others to come. */
struct comm_waits {
    void (*tell)(void *context, const char *what); /* "for rank 3 to connect"; NULL: to nobody */
    void *context;
    const atomic_bool *is_over; /* set by another thread: TCP gives up; NULL: nobody sets it */
};

struct comm_options {
    const struct place *place;       /* read by `open` alone */
    const struct device_api *device; /* whose streams the calls are issued on */
    struct local_world *local_world; /* comm_local: what its threads share */
    double patience_s; /* how long `open` and `group_new` wait for the others; may be INFINITY */
    struct comm_waits waits;
    int most_blocks; /* NCCL: thread blocks that a call may occupy; 0: as many as it likes */
    /* Hears what `poll` will report, and, over TCP, that `open` failed because another rank was
     * lost; comm_local never calls it. */
    struct failure_listener listener;
};

struct comm_api {
    const char *name;   /* "tcp" */
    const char *device; /* the one whose memory it reads and writes: "host", "cuda" */

    /* Every rank calls it; returns when all have. NULL with ERR_SYSTEM, or ERR_UNAVAILABLE when
     * the environment lacks what it needs. */
    struct comm *(*open)(const struct comm_options *options, struct err *err);
    /* Groups must have been freed. After an abort it waits for nobody. */
    void (*close)(struct comm *comm);

    /* Parts the world: all its ranks call it together, in the same order, each with the members of
     * the group that it itself is in, in the same order as they do. num_ranks 0: in none; the
     * result is NULL then, without an error. NULL with ERR_SYSTEM when another rank cannot be
     * reached. */
    struct group *(*group_new)(struct comm *comm, const int *ranks, int num_ranks, struct err *err);
    void (*group_free)(struct group *group); /* its calls have run; accepts NULL */

    void (*issue)(const struct comm_call *call); /* copied */

    /* Bytes of calls in the group so far that passed between this rank and others, while no call is
     * under way: over all members each byte is counted once. (Optional: NULL when nobody counts.)
     */
    double (*sent_bytes)(const struct group *group);

    /* False once a call failed, with the first failure: ERR_SYSTEM, where = "rank R". Any thread,
     * never waits. */
    bool (*poll)(struct comm *comm, struct err *err);
    /* Any thread: every call that waits, and every later one, ends and fails. Other ranks fail when
     * they next wait for this one. */
    void (*abort)(struct comm *comm);
};

extern const struct comm_api comm_local;
extern const struct comm_api comm_tcp;

/* What `size` threads of one process share, each with its own comm_local; freed after the last of
 * these is closed. Members that call different things are found out: the call fails on all. */
struct local_world;
struct local_world *local_world_new(int size);
void local_world_free(struct local_world *world);

#endif
