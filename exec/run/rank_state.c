#include "exec/run/rank_state.h"

#include "sim/plan/state_share.h"

struct group *rank_group(const struct rank *rank, enum group_kind kind)
{
    struct group *group = rank->groups.of[kind];
    return group && group->size > 1 ? group : NULL;
}

bool rank_reduces_pieces(const struct rank *rank)
{
    const struct run_setup *setup = &rank->setup;
    return setup->overlaps_gradients && plan_reduces_pieces(setup->plan) &&
           setup->hostility.count == 0;
}

enum group_kind rank_link(const struct instr *instr)
{
    static const enum group_kind links[NUM_ALL_LANES] = {
        [LANE_SEND_DOWN] = GROUP_SEND_DOWN,
        [LANE_RECV_DOWN] = GROUP_RECV_DOWN,
        [LANE_SEND_UP] = GROUP_SEND_UP,
        [LANE_RECV_UP] = GROUP_RECV_UP,
        [LANE_TURNED_SEND_DOWN] = GROUP_TURNED_SEND_DOWN,
        [LANE_TURNED_RECV_DOWN] = GROUP_TURNED_RECV_DOWN,
        [LANE_TURNED_SEND_UP] = GROUP_TURNED_SEND_UP,
        [LANE_TURNED_RECV_UP] = GROUP_TURNED_RECV_UP,
    };
    return links[instr_lane(instr)];
}
