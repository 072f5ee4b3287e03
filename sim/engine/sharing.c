/* Divides the capacity of shared links among the transfers (flows) that use them, max-min
 * fairly. */
#include "sim/engine/sharing.h"

#include <math.h>
#include <stdbool.h>

/* State of progressive filling (sharing.h), in which the rates of all rising flows are equal to a
 * level that grows from 0. A flow with a negative rate is still rising. */
struct filling {
    const struct shared_wires *wires;
    double *rate;
    double *left; /* capacity left over by stopped flows */
    double *open; /* total weight of rising flows */
    int num_rising;
};

static bool is_rising(const struct filling *f, int flow)
{
    return f->rate[flow] < 0;
}

/* The level at which the rising flows fill a resource. */
static double full_at(const struct filling *f, int resource)
{
    return f->open[resource] > 0 ? f->left[resource] / f->open[resource] : HUGE_VAL;
}

/* The level at which a flow stops rising: its own bound, or the level at which one of its resources
 * is full. */
static double stops_at(const struct filling *f, int flow)
{
    const struct flow *of = &f->wires->flows[flow];
    double level = of->bound;
    for (int i = 0; i < of->num_shares; i++)
        level = fmin(level, full_at(f, of->shares[i].resource));
    return level;
}

/* The lowest level at which a rising flow stops. */
static double next_level(const struct filling *f)
{
    double level = HUGE_VAL;
    for (int i = 0; i < f->wires->num_flows; i++)
        if (is_rising(f, i))
            level = fmin(level, stops_at(f, i));
    return level;
}

static void stop(struct filling *f, int flow, double level)
{
    const struct flow *of = &f->wires->flows[flow];
    f->rate[flow] = level;
    f->num_rising--;
    for (int i = 0; i < of->num_shares; i++) {
        f->left[of->shares[i].resource] -= of->shares[i].weight * level;
        f->open[of->shares[i].resource] -= of->shares[i].weight;
    }
}

/* First finds all flows that stop at this level, and only then changes the capacities that are
 * left, because the flows of a full resource stop together. */
static void stop_all(struct filling *f, double level, bool *stops)
{
    int num_flows = f->wires->num_flows;
    for (int i = 0; i < num_flows; i++)
        stops[i] = is_rising(f, i) && stops_at(f, i) <= level;
    for (int i = 0; i < num_flows; i++)
        if (stops[i])
            stop(f, i, level);
}

static void start(struct filling *f)
{
    const struct shared_wires *wires = f->wires;
    for (int i = 0; i < wires->num_resources; i++)
        f->left[i] = wires->capacity[i];
    for (int i = 0; i < wires->num_flows; i++) {
        const struct flow *flow = &wires->flows[i];
        for (int j = 0; j < flow->num_shares; j++)
            f->open[flow->shares[j].resource] += flow->shares[j].weight;
    }
}

void share_fairly(const struct shared_wires *wires, struct arena *scratch, double *rate)
{
    struct arena_mark mark = arena_mark(scratch);
    struct filling filling = {
        .wires = wires,
        .rate = rate,
        .num_rising = wires->num_flows,
        .left = ARENA_ARRAY(scratch, double, (size_t)wires->num_resources),
        .open = ARENA_ARRAY(scratch, double, (size_t)wires->num_resources),
    };
    bool *stops = ARENA_ARRAY(scratch, bool, (size_t)wires->num_flows);
    for (int i = 0; i < wires->num_flows; i++)
        rate[i] = -1;
    start(&filling);
    while (filling.num_rising > 0)
        stop_all(&filling, next_level(&filling), stops);
    arena_reset(scratch, mark);
}
