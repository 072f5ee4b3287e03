#include "tests/sim/named.h"

#include "sim/plan/ranks.h"
#include "tests/testing.h"

struct model model_of(const char *name)
{
    struct model model;
    struct err err = { 0 };
    ck_assert_msg(model_load(name, &model, &err), "%s: %s", err.where, err.msg);
    return model;
}

bool has_costs(const struct model *model)
{
    struct err ignored = { 0 };
    return model_has_costs(model, &ignored);
}

struct plan plan_of(const char *layout, struct arena *arena)
{
    struct plan plan;
    struct err err = { 0 };
    ck_assert_msg(plan_parse(layout, arena, &plan, &err), "\"%s\": %s: %s", layout, err.where,
                  err.msg);
    return plan;
}

struct plan plan_on(const struct system *system, const struct model *model, const char *layout,
                    struct arena *arena)
{
    struct plan plan = plan_of(layout, arena);
    struct err err = { 0 };
    bool ok = plan_derive_data(&plan, system->num_gpus, &err) &&
              !plan_check(&plan, model, model->batch, system->num_gpus, &err);
    ck_assert_msg(ok, "\"%s\": %s: %s", layout, err.where, err.msg);
    return plan;
}
