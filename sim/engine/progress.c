/* Which activities run, how fast, and which ends next. A slot holds one activity of one rank at a
 * time. */
#include "sim/engine/progress.h"

#include "sim/engine/event_heap.h"
#include "sim/engine/sharing.h"

#include <assert.h>
#include <stdbool.h>

enum { MOST_TRANSFERS = 8, NOWHERE = -1 };

struct running {
    struct activity activity;
    double left_s; /* part of alone_s left at since_s */
    double since_s;
    double rate;
    bool is_seen;
};

/* The state of a rank. */
struct site {
    int compute; /* slot, or NOWHERE */
    int transfers[MOST_TRANSFERS];
    int num_transfers;
    int local; /* index among the ranks whose rates are computed together, or NOWHERE */
    bool is_dirty;
};

struct progress {
    int num_ranks, slots_per_rank;
    struct slowdowns slowdowns;
    double now_s;
    struct running *running; /* by slot */
    struct site *sites;      /* by rank */
    struct event_heap ends;  /* ends of the slots whose rate is known */
    int *dirty; /* ranks where something started or ended since rates were last computed */
    int num_dirty;
    /* Ranks and transfers whose rates are computed together, because a chain of shared ranks
     * connects them. */
    int *ranks, *slots;
    int num_ranks_seen, num_slots_seen;
    struct flow *flows;
    double *capacity, *rates;
    struct arena *arena;
};

struct progress *progress_new(int num_ranks, int slots_per_rank, struct slowdowns slowdowns,
                              struct arena *arena)
{
    struct progress *p = ARENA_NEW(arena, struct progress);
    size_t ranks = (size_t)num_ranks;
    size_t slots = ranks * (size_t)slots_per_rank;
    *p = (struct progress){ .num_ranks = num_ranks,
                            .slots_per_rank = slots_per_rank,
                            .slowdowns = slowdowns,
                            .running = ARENA_ARRAY(arena, struct running, slots),
                            .sites = ARENA_ARRAY(arena, struct site, ranks),
                            .ends = event_heap_new(slots, arena),
                            .dirty = ARENA_ARRAY(arena, int, ranks),
                            .ranks = ARENA_ARRAY(arena, int, ranks),
                            .slots = ARENA_ARRAY(arena, int, slots),
                            .flows = ARENA_ARRAY(arena, struct flow, slots),
                            .rates = ARENA_ARRAY(arena, double, slots),
                            .arena = arena };
    size_t resources = ranks * 2 * NUM_WIRES;
    p->capacity = ARENA_ARRAY(arena, double, resources);
    for (size_t i = 0; i < resources; i++)
        p->capacity[i] = 1;
    for (int i = 0; i < num_ranks; i++)
        p->sites[i].compute = p->sites[i].local = NOWHERE;
    return p;
}

double progress_now_s(const struct progress *p)
{
    return p->now_s;
}

/* --- rates --------------------------------------------------------------------------------- */

static bool is_transfer(const struct activity *activity)
{
    return activity->kind == ACTIVITY_MESSAGE || activity->kind == ACTIVITY_EXCHANGE;
}

/* Accounts for the work done at the old rate, then sets the new one. An unchanged rate leaves the
 * end time exactly as it is. */
static void set_rate(struct progress *p, int slot, double rate)
{
    struct running *r = &p->running[slot];
    if (event_heap_has(&p->ends, slot) && rate == r->rate)
        return;
    double left_s = r->left_s - r->rate * (p->now_s - r->since_s);
    r->left_s = left_s > 0 ? left_s : 0;
    r->since_s = p->now_s;
    r->rate = rate;
    event_heap_set(&p->ends, (struct end){ p->now_s + r->left_s / rate, slot });
}

static void mark_dirty(struct progress *p, int rank)
{
    if (rank < 0 || p->sites[rank].is_dirty)
        return;
    p->sites[rank].is_dirty = true;
    p->dirty[p->num_dirty++] = rank;
}

static void see_rank(struct progress *p, int rank)
{
    if (rank < 0 || p->sites[rank].local != NOWHERE)
        return;
    p->sites[rank].is_dirty = false;
    p->sites[rank].local = p->num_ranks_seen;
    p->ranks[p->num_ranks_seen++] = rank;
}

/* Collects everything that a chain of transfers with common ranks connects to `rank`. */
static void see_all(struct progress *p, int rank)
{
    see_rank(p, rank);
    for (int i = 0; i < p->num_ranks_seen; i++) {
        const struct site *site = &p->sites[p->ranks[i]];
        for (int j = 0; j < site->num_transfers; j++) {
            struct running *r = &p->running[site->transfers[j]];
            if (r->is_seen)
                continue;
            r->is_seen = true;
            p->slots[p->num_slots_seen++] = site->transfers[j];
            see_rank(p, r->activity.rank);
            see_rank(p, r->activity.peer);
        }
    }
}

static void forget_all(struct progress *p)
{
    for (int i = 0; i < p->num_ranks_seen; i++)
        p->sites[p->ranks[i]].local = NOWHERE;
    for (int i = 0; i < p->num_slots_seen; i++)
        p->running[p->slots[i]].is_seen = false;
    p->num_ranks_seen = p->num_slots_seen = 0;
}

enum direction { OUT, IN };

static void add_share(const struct progress *p, struct flow *flow, int rank, enum wire wire,
                      enum direction direction)
{
    int resource = (p->sites[rank].local * NUM_WIRES + (int)wire) * 2 + (int)direction;
    flow->shares[flow->num_shares++] = (struct share){ resource, 1 };
}

static bool is_computing(const struct progress *p, int rank)
{
    return rank >= 0 && p->sites[rank].compute != NOWHERE;
}

/* The rate without other transfers. */
static double free_rate(const struct progress *p, const struct activity *a)
{
    return is_computing(p, a->rank) || is_computing(p, a->peer) ? 1 / p->slowdowns.comm : 1;
}

/* Adds the links that a transfer uses. At rate 1 it fills them, as each stage has its own share of
 * the node's network cards. */
static void fill_flow(const struct progress *p, const struct activity *a, struct flow *flow)
{
    bool both_ways = a->kind == ACTIVITY_EXCHANGE;
    flow->bound = free_rate(p, a);
    flow->num_shares = 0;
    add_share(p, flow, a->rank, a->wire, OUT);
    if (both_ways)
        add_share(p, flow, a->rank, a->wire, IN);
    if (a->peer >= 0)
        add_share(p, flow, a->peer, a->wire, IN);
    if (both_ways && a->peer >= 0)
        add_share(p, flow, a->peer, a->wire, OUT);
}

/* Shares the links among the collected transfers, which may slow each other down. */
static void share_wires(struct progress *p)
{
    for (int i = 0; i < p->num_slots_seen; i++)
        fill_flow(p, &p->running[p->slots[i]].activity, &p->flows[i]);
    share_fairly(&(struct shared_wires){ .capacity = p->capacity,
                                         .num_resources = p->num_ranks_seen * 2 * NUM_WIRES,
                                         .flows = p->flows,
                                         .num_flows = p->num_slots_seen },
                 p->arena, p->rates);
}

static void rate_transfers(struct progress *p)
{
    if (p->num_slots_seen == 1)
        p->rates[0] = free_rate(p, &p->running[p->slots[0]].activity);
    else if (p->num_slots_seen > 1)
        share_wires(p);
    for (int i = 0; i < p->num_slots_seen; i++)
        set_rate(p, p->slots[i], p->rates[i]);
}

static void rate_compute(struct progress *p, int rank)
{
    const struct site *site = &p->sites[rank];
    if (site->compute != NOWHERE)
        set_rate(p, site->compute, site->num_transfers > 0 ? 1 / p->slowdowns.compute : 1);
}

/* Recomputes rates only where something changed, and for everything connected to it. */
static void settle(struct progress *p)
{
    for (int i = 0; i < p->num_dirty; i++)
        rate_compute(p, p->dirty[i]);
    for (int i = 0; i < p->num_dirty; i++) {
        if (!p->sites[p->dirty[i]].is_dirty)
            continue; /* the rates of this rank were already computed together with those of another
                         rank */
        see_all(p, p->dirty[i]);
        rate_transfers(p);
        forget_all(p);
    }
    p->num_dirty = 0;
}

/* --- starting and ending ------------------------------------------------------------------- */

static void enter(struct progress *p, int rank, int slot)
{
    if (rank < 0)
        return;
    struct site *site = &p->sites[rank];
    assert(site->num_transfers < MOST_TRANSFERS);
    site->transfers[site->num_transfers++] = slot;
}

static void leave(struct progress *p, int rank, int slot)
{
    if (rank < 0)
        return;
    struct site *site = &p->sites[rank];
    int i = 0;
    while (site->transfers[i] != slot)
        i++;
    site->transfers[i] = site->transfers[--site->num_transfers];
}

struct activity *progress_slot(struct progress *p, int slot)
{
    return &p->running[slot].activity;
}

void progress_start(struct progress *p, int slot)
{
    struct running *r = &p->running[slot];
    struct activity *activity = &r->activity;
    r->left_s = activity->alone_s;
    r->since_s = p->now_s;
    r->rate = 0;
    if (activity->kind == ACTIVITY_DELAY || activity->alone_s <= 0) {
        activity->kind = ACTIVITY_DELAY; /* activities of length 0 slow no others */
        set_rate(p, slot, 1);
        return;
    }
    if (is_transfer(activity)) {
        enter(p, activity->rank, slot);
        enter(p, activity->peer, slot);
        mark_dirty(p, activity->peer);
    } else {
        p->sites[activity->rank].compute = slot;
    }
    mark_dirty(p, activity->rank);
}

static void end(struct progress *p, int slot)
{
    const struct activity *activity = &p->running[slot].activity;
    if (activity->kind == ACTIVITY_DELAY)
        return;
    if (is_transfer(activity)) {
        leave(p, activity->rank, slot);
        leave(p, activity->peer, slot);
        mark_dirty(p, activity->peer);
    } else {
        p->sites[activity->rank].compute = NOWHERE;
    }
    mark_dirty(p, activity->rank);
}

int progress_next(struct progress *p)
{
    bool same_time = p->ends.count > 0 && p->ends.at[0].end_s == p->now_s;
    if (!same_time)
        settle(p);
    if (p->ends.count == 0)
        return NOWHERE;
    struct end first = event_heap_take(&p->ends);
    p->now_s = first.end_s;
    end(p, first.slot);
    return first.slot;
}
