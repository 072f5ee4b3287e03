/* Groups of ranks that communicate, as sets of ranks with a common stride. */
#include "sim/plan/group.h"

#include "sim/plan/state_share.h"

#include <assert.h>

static void add_set(struct rank_group *group, struct members set)
{
    if (set.size <= 1)
        return;
    int i = group->num_sets++;
    assert(i < MAX_AXES);
    for (; i > 0 && group->sets[i - 1].stride > set.stride; i--)
        group->sets[i] = group->sets[i - 1];
    group->sets[i] = set;
}

struct members grid_members(const struct grid *grid, enum axis_id axis)
{
    return (struct members){ grid_stride(grid, axis), grid->degree[axis] };
}

struct rank_group grid_group(const struct grid *grid, unsigned along)
{
    struct rank_group group = { 0 };
    int stride = 1;
    for (int i = 0; i < num_axes; i++) {
        int axis = grid->order[i], degree = grid->degree[axis];
        if (degree > 1 && (along >> axis & 1))
            group.sets[group.num_sets++] = (struct members){ stride, degree };
        stride *= degree;
    }
    group.num_ranks = stride;
    return group;
}

struct rank_group plan_group(const struct plan *plan, unsigned along)
{
    struct grid grid = plan_grid(plan);
    return grid_group(&grid, along);
}

int axis_groups(const struct plan *plan, int axis, struct members groups[MAX_AXIS_GROUPS])
{
    if (!axes[axis]->lower)
        return 0;
    if (axes[axis]->groups)
        return axes[axis]->groups(plan, groups);
    groups[0] = (struct members){ layout_stride(plan, (enum axis_id)axis), plan->degree[axis] };
    return 1;
}

struct rank_group group_along_both(struct members a, struct members b, int num_ranks)
{
    struct rank_group group = { .num_ranks = num_ranks };
    add_set(&group, a);
    add_set(&group, b);
    return group;
}

struct rank_group group_along(struct members set, int num_ranks)
{
    return group_along_both(set, (struct members){ 1, 1 }, num_ranks);
}

/* Divides a set of members into consecutive groups of `size`. The results are the members of one
 * group, and the members that have the same place in all groups. */
struct halves {
    struct members near, far;
};

static struct halves cut(struct members set, int size)
{
    return (struct halves){ { set.stride, size }, { set.stride * size, set.size / size } };
}

/* The two groups of a rank: the ranks of `near` shard one copy of the state, those of `far` hold
 * the same shard. */
struct shard_groups {
    struct rank_group near, far;
};

static struct shard_groups cut_replicas(const struct plan *plan)
{
    struct grid grid = plan_grid(plan);
    struct shard_groups groups = { { .num_ranks = plan_ranks(plan) },
                                   { .num_ranks = plan_ranks(plan) } };
    int rest = plan_shards(plan);
    for (int axis = 0; axis < num_axes; axis++) {
        if (!axes[axis]->is_replicated)
            continue;
        struct members set = grid_members(&grid, (enum axis_id)axis);
        int size = rest < set.size ? rest : set.size;
        struct halves halves = cut(set, size);
        add_set(&groups.near, halves.near);
        add_set(&groups.far, halves.far);
        rest /= size;
    }
    return groups;
}

struct rank_group shard_ranks(const struct plan *plan)
{
    return cut_replicas(plan).near;
}

struct rank_group shard_replicas(const struct plan *plan)
{
    return cut_replicas(plan).far;
}

static struct halves cut_expert_replicas(const struct plan *plan)
{
    struct grid grid = plan_expert_grid(plan);
    return cut(grid_members(&grid, AXIS_DATA), plan_expert_shards(plan));
}

struct rank_group expert_shard_ranks(const struct plan *plan)
{
    return group_along(cut_expert_replicas(plan).near, plan_ranks(plan));
}

struct rank_group expert_shard_replicas(const struct plan *plan)
{
    return group_along(cut_expert_replicas(plan).far, plan_ranks(plan));
}

int group_size(const struct rank_group *group)
{
    int size = 1;
    for (int i = 0; i < group->num_sets; i++)
        size *= group->sets[i].size;
    return size;
}

/* Sets are nested: all members of a set with a short stride lie between two neighbours of a set
 * with a longer one. */
int group_ranks(const struct rank_group *group, int rank, int *members)
{
    int count = 1;
    members[0] = rank;
    for (int i = 0; i < group->num_sets; i++) {
        struct members set = group->sets[i];
        members[0] -=
            rank / set.stride % set.size * set.stride; /* minus the rank's own offset in the set */
    }
    for (int i = 0; i < group->num_sets; i++) {
        int num_before = count;
        for (int j = 1; j < group->sets[i].size; j++)
            for (int k = 0; k < num_before; k++)
                members[count++] = members[k] + j * group->sets[i].stride;
    }
    return count;
}
