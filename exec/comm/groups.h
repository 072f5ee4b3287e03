/* exec/comm/groups.h - the communication groups that one rank of a plan is in.
 *
 * The groups follow from the plan (sim/plan/group.h) and are made in the same order on all ranks.
 * Each group has its own sockets or communicator, so calls of different groups never wait for one
 * another. The collectives of a group of one rank only copy. On GPUs every group costs NCCL
 * buffers, so unused groups are not made. */
#ifndef EXEC_COMM_GROUPS_H
#define EXEC_COMM_GROUPS_H

#include "exec/comm/comm.h"
#include "sim/plan/group.h"
#include "sim/plan/ranks.h"

// clang-format off
/* The members of a group are in the order of their ranks, except in links. A link is a group of two
 * ranks: first the sender, then the receiver of messages between stages. A stage has a separate
 * link for each kind of message: four, and four more if the plan's chunks also go back up the
 * stages (a V). If sends and receives shared a communicator, a send would wait for a receive that
 * was issued before it. */
#define GROUP_KINDS(X)                                                                             \
    /* name         text          members */                                                       \
    X(TENSOR,       "tensor",     "tensor ranks, which are the sequence ranks too")                \
    X(DATA,         "data",       "data x context ranks: all that hold the same weights")          \
    X(MODEL,        "model",      "tensor x pipeline ranks: one copy of the model; sums its gradient norm") \
    X(EMBEDDING,    "embedding",  "first and last stage, which hold copies of a tied embedding")   \
    X(SEND_DOWN,    "send_down",  "this stage and the next: activations")                          \
    X(RECV_DOWN,    "recv_down",  "the stage before and this one: activations")                    \
    X(SEND_UP,      "send_up",    "this stage and the one before: activation gradients")           \
    X(RECV_UP,      "recv_up",    "the next stage and this one: activation gradients")             \
    X(TURNED_SEND_DOWN, "turned_send_down", "this stage and the one before: activations, going up") \
    X(TURNED_RECV_DOWN, "turned_recv_down", "the next stage and this one: activations, going up")  \
    X(TURNED_SEND_UP,   "turned_send_up",   "this stage and the next: activation gradients, going down") \
    X(TURNED_RECV_UP,   "turned_recv_up",   "the stage before and this one: activation gradients, going down") \
    X(WORLD,        "world",      "all ranks")

enum group_kind {
#define X(name, text, members) GROUP_##name,
    GROUP_KINDS(X)
#undef X
};
#define X(name, text, members) +1
enum { NUM_GROUP_KINDS = 0 GROUP_KINDS(X) };
#undef X
// clang-format on
extern const char *const group_kind_names[NUM_GROUP_KINDS + 1]; /* NULL-terminated */

/* Writes the members of the group of `kind` that contains `rank` to `members` (space for
 * plan_ranks) and returns their number; 0: no group. EMBEDDING has the first and the last stage, if
 * there are several, as members. The last stage has a link to the first when each has several
 * chunks. */
int group_members(const struct plan *plan, int rank, enum group_kind kind, int *members);

struct groups {
    const struct comm_api *api;
    struct group *of[NUM_GROUP_KINDS]; /* NULL: the rank is in no group of this kind */
};

/* All ranks of the plan call it together. On failure all groups are freed and the error names the
 * group. */
bool groups_new(const struct comm_api *api, struct comm *comm, const struct plan *plan, int rank,
                struct groups *out, struct err *err);
void groups_free(struct groups *groups);

#endif
