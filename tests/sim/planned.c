#include "tests/sim/planned.h"

#include "sim/memory/held.h"
#include "sim/plan/ranks.h"
#include "tests/check_ok.h"

struct planned planned;

void planned_load(const char *cluster, const char *stack, const char *model, int num_gpus)
{
    struct err err = { 0 };
    check_ok(system_load(cluster, stack, num_gpus, &planned.system, &err), &err);
    check_ok(model_load(model, &planned.model, &err), &err);
}

void planned_release(void)
{
    system_release(&planned.system);
    arena_release(&planned.arena);
    planned = (struct planned){ 0 };
}

void planned_layout(const char *layout)
{
    struct err err = { 0 };
    check_ok(plan_parse(layout, &planned.arena, &planned.plan, &err), &err);
    check_ok(plan_derive_data(&planned.plan, planned.system.num_gpus, &err), &err);
    check_ok(!plan_check(&planned.plan, &planned.model, planned.model.batch,
                         planned.system.num_gpus, &err),
             &err);
    planned.pieces = pieces_cost(&planned.system, &planned.model, &planned.plan, &planned.arena);
}

struct stage_memory planned_memory(int stage)
{
    struct memory_input input = {
        .system = &planned.system,
        .model = &planned.model,
        .plan = &planned.plan,
        .pieces = &planned.pieces,
        .generator = generator_find(plan_schedule(&planned.plan)),
        .num_microbatches = plan_microbatches(&planned.plan, planned.model.batch),
    };
    return stage_memory(&input, stage);
}

double planned_parameters(int stage)
{
    return stage_parameters(&planned.model, &planned.plan, &planned.pieces, stage);
}
