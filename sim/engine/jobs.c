/* Divides the instructions of a rank into the queues of its lanes. A lane is a stream that runs its
 * instructions in order. */
#include "sim/engine/jobs.h"

/* Positions of a list's instructions in their lanes. */
struct places {
    const struct instrs *list;
    int *place; /* [instr] */
};

static enum lane lane_of(const struct instrs *list, int instr)
{
    return instr_lane(&list->at[instr]);
}

static struct places find_places(const struct instrs *list, struct arena *arena)
{
    struct places places = { list, ARENA_ARRAY(arena, int, (size_t)list->count) };
    int next[NUM_ALL_LANES] = { 0 };
    for (int i = 0; i < list->count; i++)
        places.place[i] = next[lane_of(list, i)]++;
    return places;
}

static void make_room(struct job_lanes *lanes, const struct instrs *list, struct arena *arena)
{
    *lanes = (struct job_lanes){ 0 };
    for (int i = 0; i < list->count; i++)
        lanes->queues[lane_of(list, i)].count++;
    for (int lane = 0; lane < NUM_ALL_LANES; lane++) {
        struct queue *queue = &lanes->queues[lane];
        queue->jobs = ARENA_ARRAY(arena, struct job, (size_t)queue->count);
        lanes->wakes[lane] = 1U << lane;
    }
}

/* The condition that `instr` is done, as a gate (jobs.h). */
static struct gate gate_behind(const struct places *places, int instr)
{
    if (instr == NO_INSTR)
        return (struct gate){ 0, 0 };
    unsigned done = (unsigned)places->place[instr] + 1;
    return (struct gate){ .lane = lane_of(places->list, instr), .count = done & 0xfffffff };
}

static struct job job_of(const struct places *places, const struct step_cost *cost,
                         struct placement placement, int instr, int held)
{
    const struct instr *from = &places->list->at[instr];
    return (struct job){ .instr = instr,
                         .after = gate_behind(places, from->after),
                         .held = gate_behind(places, held),
                         .peer = (short)from->peer,
                         .op = (unsigned char)from->op,
                         .wire = (unsigned char)instr_wire(cost, placement, from) };
}

static void add_job(struct job_lanes *lanes, enum lane lane, int place, const struct job *job)
{
    lanes->queues[lane].jobs[place] = *job;
    lanes->wakes[job->after.lane] |= 1U << lane;
    lanes->wakes[job->held.lane] |= 1U << lane;
}

void job_lanes_fill(struct job_lanes *lanes, const struct step_cost *cost,
                    const struct schedule *schedule, int stage, struct arena *arena)
{
    const struct instrs *list = &schedule->ranks[stage];
    make_room(lanes, list, arena);
    struct arena_mark scratch = arena_mark(arena);
    struct places places = find_places(list, arena);
    int *held = ARENA_ARRAY(arena, int, (size_t)list->count);
    double *alone_s = ARENA_ARRAY(arena, double, (size_t)list->count);
    step_holds(cost, list, held);
    step_alone_s(cost, schedule, stage, alone_s);
    for (int i = 0; i < list->count; i++) {
        struct job job = job_of(&places, cost, schedule_placement(schedule), i, held[i]);
        job.alone_s = alone_s[i];
        add_job(lanes, lane_of(list, i), places.place[i], &job);
    }
    arena_reset(arena, scratch);
}
