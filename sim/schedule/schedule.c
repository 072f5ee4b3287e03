#include "sim/schedule/schedule.h"

#include "sim/schedule/lower.h"

#include <assert.h>

static struct schedule *empty_schedule(const struct generator *generator,
                                       const struct schedule_shape *shape, struct arena *arena)
{
    struct schedule *schedule = ARENA_NEW(arena, struct schedule);
    schedule->shape = *shape;
    schedule->rule = generator->rule;
    schedule->ranks = ARENA_ARRAY(arena, struct instrs, (size_t)shape->num_stages);
    return schedule;
}

static bool accepts(const struct generator *generator, const struct schedule_shape *shape,
                    struct err *err)
{
    assert(shape->num_stages > 0 && shape->chunks_per_stage > 0 && shape->num_microbatches > 0);
    return generator->accepts(shape, err);
}

struct schedule *schedule_compute_order(const struct generator *generator,
                                        const struct schedule_shape *shape, struct arena *arena,
                                        struct err *err)
{
    if (!accepts(generator, shape, err))
        return NULL;
    struct schedule *schedule = empty_schedule(generator, shape, arena);
    for (int stage = 0; stage < shape->num_stages; stage++) {
        schedule->ranks[stage].at =
            ARENA_ARRAY(arena, struct instr, lower_num_slots(generator, shape));
        generator->emit(shape, stage, &schedule->ranks[stage]);
    }
    return schedule;
}

struct schedule *schedule_new(const struct generator *generator, const struct schedule_shape *shape,
                              const struct lowering *lowering, struct arena *arena, struct err *err)
{
    if (!accepts(generator, shape, err))
        return NULL;
    struct schedule *schedule = empty_schedule(generator, shape, arena);
    lower_stages(generator, lowering, schedule, arena);
    return schedule;
}

int schedule_in_flight(const struct schedule *schedule, int stage)
{
    const struct instrs *list = &schedule->ranks[stage];
    int alive = 0;
    int most = 0;
    for (int i = 0; i < list->count; i++) {
        if (list->at[i].op == INSTR_FORWARD)
            alive++;
        if (instr_ends_backward(list->at[i].op))
            alive--;
        most = alive > most ? alive : most;
    }
    return most;
}

double schedule_held_bytes(const struct schedule *schedule, int stage, double whole_bytes,
                           double waiting_bytes)
{
    const struct instrs *list = &schedule->ranks[stage];
    int whole = 0;
    int waiting = 0;
    double most_bytes = 0;
    for (int i = 0; i < list->count; i++) {
        whole += list->at[i].op == INSTR_FORWARD;
        whole -= instr_starts_backward(list->at[i].op);
        waiting += list->at[i].op == INSTR_BACKWARD_INPUT;
        waiting -= list->at[i].op == INSTR_BACKWARD_WEIGHT;
        double held_bytes = whole * whole_bytes + waiting * waiting_bytes;
        most_bytes = held_bytes > most_bytes ? held_bytes : most_bytes;
    }
    return most_bytes;
}
