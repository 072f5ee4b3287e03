/* Makes the communication groups that a rank is in. A link is a group of two ranks whose pipeline
 * stages send to each other. */
#include "exec/comm/groups.h"

#include "base/arena.h"
#include "sim/plan/axis.h"
#include "sim/plan/group.h"
#include "sim/plan/ranks.h"

#include <stdlib.h>

// clang-format off
const char *const group_kind_names[NUM_GROUP_KINDS + 1] = {
#define X(name, text, members) text,
    GROUP_KINDS(X)
#undef X
};
// clang-format on

/* Writes the ranks that differ from `rank` only along the axes of the set `along`, in ascending
 * order. */
static int ranks_across(const struct plan *plan, int rank, unsigned along, int *members)
{
    struct rank_group group = plan_group(plan, along);
    return group_ranks(&group, rank, members);
}

/* --- links ---------------------------------------------------------------------------------- */

static int rank_on_stage(const struct plan *plan, int rank, int stage)
{
    struct coordinates at = layout_coordinates_of(plan, rank);
    at.at[AXIS_PIPELINE] = stage;
    return layout_rank_of(plan, at);
}

static bool is_link(enum group_kind kind)
{
    return kind >= GROUP_SEND_DOWN && kind <= GROUP_TURNED_RECV_UP;
}

static bool is_turned(enum group_kind kind)
{
    return kind >= GROUP_TURNED_SEND_DOWN && kind <= GROUP_TURNED_RECV_UP;
}

/* The equivalent link for chunks that go down the pipeline: between the same stages, in the same
 * direction. */
static enum group_kind straight(enum group_kind kind)
{
    switch ((int)kind) {
    case GROUP_TURNED_SEND_DOWN:
        return GROUP_SEND_UP;
    case GROUP_TURNED_RECV_DOWN:
        return GROUP_RECV_UP;
    case GROUP_TURNED_SEND_UP:
        return GROUP_SEND_DOWN;
    case GROUP_TURNED_RECV_UP:
        return GROUP_RECV_DOWN;
    default:
        return kind;
    }
}

/* The pipeline boundary that the link of `kind` at `rank` crosses. */
static int boundary_of(const struct plan *plan, int rank, enum group_kind kind)
{
    int stage = layout_coordinates_of(plan, rank).at[AXIS_PIPELINE];
    kind = straight(kind);
    bool is_upper = kind == GROUP_SEND_DOWN || kind == GROUP_RECV_UP;
    return is_upper ? stage : placement_boundary_before(plan_placement(plan), stage);
}

static int link_members(const struct plan *plan, int rank, enum group_kind kind, int *members)
{
    struct placement placement = plan_placement(plan);
    int boundary = boundary_of(plan, rank, kind);
    bool goes_down = straight(kind) == GROUP_SEND_DOWN || straight(kind) == GROUP_RECV_DOWN;
    if (!placement_uses_boundary(placement, boundary) || (is_turned(kind) && !plan->placement))
        return 0;
    members[!goes_down] = rank_on_stage(plan, rank, boundary);
    members[goes_down] = rank_on_stage(plan, rank, placement_stage_behind(placement, boundary));
    return 2;
}

/* Links are made in rounds, and no rank has two links in a round. First come the links that begin
 * at even stages, then those at odd stages, then the ring's last link if it shares a rank with the
 * first. */
enum { NUM_LINK_ROUNDS = 3 };

static int link_round(const struct plan *plan, int boundary)
{
    bool is_last = boundary == placement_last_boundary(plan_placement(plan));
    return is_last && boundary % 2 == 0 ? 2 : boundary % 2;
}

/* --- all kinds ------------------------------------------------------------------------------ */

static int embedding_members(const struct plan *plan, int rank, int *members)
{
    struct placement placement = plan_placement(plan);
    members[0] = rank_on_stage(plan, rank, placement_embedding_stage(placement));
    members[1] = rank_on_stage(plan, rank, placement_head_stage(placement));
    bool is_member = rank == members[0] || rank == members[1];
    return members[0] != members[1] && is_member ? 2 : 0;
}

int group_members(const struct plan *plan, int rank, enum group_kind kind, int *members)
{
    switch (kind) {
    case GROUP_TENSOR:
        return ranks_across(plan, rank, TENSOR_RANKS, members);
    case GROUP_DATA:
        return ranks_across(plan, rank, replicated_axes(), members);
    case GROUP_MODEL:
        return ranks_across(plan, rank, model_axes(), members);
    case GROUP_EMBEDDING:
        return embedding_members(plan, rank, members);
    case GROUP_SEND_DOWN:
    case GROUP_RECV_DOWN:
    case GROUP_SEND_UP:
    case GROUP_RECV_UP:
    case GROUP_TURNED_SEND_DOWN:
    case GROUP_TURNED_RECV_DOWN:
    case GROUP_TURNED_SEND_UP:
    case GROUP_TURNED_RECV_UP:
        return link_members(plan, rank, kind, members);
    case GROUP_WORLD:
        return ranks_across(plan, rank, ALL_RANKS, members);
    }
    return 0;
}

struct making {
    struct groups *groups;
    struct comm *comm;
    const struct plan *plan;
    int rank;
    int *members;
};

/* Makes the group of a kind. A rank that is in no such group also calls group_new, with no
 * members. */
static bool make(const struct making *making, enum group_kind kind, int count, struct err *err)
{
    const struct comm_api *api = making->groups->api;
    struct group *group = api->group_new(making->comm, making->members, count, err);
    if (count == 0)
        return true;
    making->groups->of[kind] = group;
    if (group)
        return true;
    err_prefix(err, " group: ");
    err_prefix(err, group_kind_names[kind]);
    return false;
}

static bool make_link(const struct making *making, enum group_kind sends, enum group_kind receives,
                      int round, struct err *err)
{
    enum group_kind ends[] = { sends, receives };
    for (int i = 0; i < 2; i++) {
        int count = link_members(making->plan, making->rank, ends[i], making->members);
        int boundary = boundary_of(making->plan, making->rank, ends[i]);
        if (count > 0 && link_round(making->plan, boundary) == round)
            return make(making, ends[i], count, err);
    }
    return make(making, sends, 0, err);
}

static bool make_links(const struct making *making, struct err *err)
{
    bool ok = true;
    for (int round = 0; round < NUM_LINK_ROUNDS && making->plan->pp > 1; round++)
        ok = ok && make_link(making, GROUP_SEND_DOWN, GROUP_RECV_DOWN, round, err) &&
             make_link(making, GROUP_SEND_UP, GROUP_RECV_UP, round, err);
    for (int round = 0; round < NUM_LINK_ROUNDS && making->plan->placement; round++)
        ok = ok && make_link(making, GROUP_TURNED_SEND_DOWN, GROUP_TURNED_RECV_DOWN, round, err) &&
             make_link(making, GROUP_TURNED_SEND_UP, GROUP_TURNED_RECV_UP, round, err);
    return ok;
}

bool groups_new(const struct comm_api *api, struct comm *comm, const struct plan *plan, int rank,
                struct groups *out, struct err *err)
{
    *out = (struct groups){ .api = api };
    int *members = arena_grow(NULL, ((size_t)plan_ranks(plan) + 1) * sizeof *members);
    struct making making = { out, comm, plan, rank, members };
    bool ok = true;
    for (int i = 0; i < NUM_GROUP_KINDS && ok; i++) {
        enum group_kind kind = (enum group_kind)i;
        ok = is_link(kind) || make(&making, kind, group_members(plan, rank, kind, members), err);
    }
    ok = ok && make_links(&making, err);
    free(members);
    if (!ok)
        groups_free(out);
    return ok;
}

void groups_free(struct groups *groups)
{
    for (int kind = 0; kind < NUM_GROUP_KINDS; kind++) {
        if (groups->of[kind])
            groups->api->group_free(groups->of[kind]);
        groups->of[kind] = NULL;
    }
}
