#include "tests/search/certificate_check.h"

#include "base/length.h"
#include "sim/engine/memory_interval.h"
#include "sim/engine/simulate.h"
#include "tests/search/certificate_space.h"

#include <math.h>
#include <string.h>

static const double tolerance = 1e-12; /* of sums in another order */
static const double same = 1e-9;
enum { MOST_SAMPLED = 4000 };

struct checker {
    const json_t *space;
    struct named_space named;
    const struct system *system;
    const struct model *model;
    struct evaluator *evaluator;
    struct arena *arena;
    struct err *err;
    struct plan base;
    double answer_s, planned_bytes, risk;
    const char *answer;
    json_t *families; /* by first layout; those met are removed */
    size_t sampled_every, num_met;
    bool answer_was_timed;
};

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static double real_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static bool refuse(struct checker *c, const char *where, const char *why)
{
    return err_set(c->err, ERR_INPUT, where, "%s", why);
}

static const char *layout_of(struct checker *c, const struct plan *plan)
{
    struct text text = { 0 };
    plan_write(plan, &text);
    return text_keep(&text, c->arena);
}

static const struct plan_rule *broken_by(const struct checker *c, const struct plan *plan)
{
    struct err ignored = { .code = ERR_INFEASIBLE };
    const struct plan_rule *broken =
        plan_check(plan, c->model, c->model->batch, c->system->num_gpus, &ignored);
    bool is_gone = plan->pp > 1 && plan->zero > c->system->stack.shards.pipeline_zero;
    return !broken && is_gone ? plan_shard_rule() : broken;
}

static bool is_over_memory(const struct checker *c, const struct plan *plan)
{
    double bytes = evaluate_peak_bytes(c->evaluator, plan);
    return bytes > c->planned_bytes ||
           (c->risk > 0 && memory_risk(c->system, bytes) > c->risk * (1 + same));
}

/* --- members ---------------------------------------------------------------------------------- */

/* Whether the row's layout is the member, or where all layers are recomputed its full:K. */
static bool is_row_of(struct checker *c, const char *layout, const struct plan *member,
                      struct plan *out)
{
    if (!layout || !plan_parse(layout, c->arena, out, c->err))
        return false;
    struct plan plain = *out;
    if (plain.recompute == RECOMPUTE_EVERY && !space_fixes(&c->named, "recompute"))
        plain.recompute = RECOMPUTE_FULL;
    return strcmp(layout_of(c, &plain), layout_of(c, member)) == 0;
}

static bool no_group_fits(struct checker *c, struct plan plan)
{
    bool groups = plan.recompute == RECOMPUTE_FULL && !space_fixes(&c->named, "recompute");
    if (!is_over_memory(c, &plan))
        return false;
    plan.recompute = RECOMPUTE_EVERY;
    for (plan.recompute_every = 2; groups && plan.recompute_every <= c->model->layers;
         plan.recompute_every++)
        if (!broken_by(c, &plan) && !is_over_memory(c, &plan))
            return false;
    return true;
}

static bool same_time(double a_s, double b_s)
{
    return fabs(a_s - b_s) <= same * b_s;
}

static bool check_row(struct checker *c, const json_t *row, const struct plan *member,
                      double floor_s)
{
    const char *layout = json_string_value(json_array_get(row, 0));
    const char *why = json_string_value(json_array_get(row, 1));
    double value = json_real_value(json_array_get(row, 2));
    struct plan plan;
    if (!why || !is_row_of(c, layout, member, &plan))
        return refuse(c, layout_of(c, member), "the member has no row of its own");
    double step_s = evaluate_step_s(c->evaluator, &plan);
    if (floor_s > step_s * (1 + same))
        return refuse(c, layout, "the family's floor is above the member");
    if (strcmp(why, "bound") == 0)
        return (value * (1 - tolerance) > c->answer_s && value <= step_s * (1 + same)) ||
               refuse(c, layout, "the bound is above the member, or not above the answer");
    if (strcmp(why, "memory") == 0)
        return no_group_fits(c, plan) || refuse(c, layout, "the member fits");
    bool holds = strcmp(why, "time") == 0 && same_time(value, step_s) &&
                 step_s >= c->answer_s * (1 - tolerance) && !is_over_memory(c, &plan);
    c->answer_was_timed |=
        holds && strcmp(layout, c->answer) == 0 && same_time(c->answer_s, step_s);
    return holds || refuse(c, layout, "the time is another, or less than the answer's");
}

/* rows NULL: the floor rules the family out. */
static bool check_members(struct checker *c, const struct plan *first, const json_t *family)
{
    const json_t *rows = json_object_get(family, "members");
    double floor_s = real_of(family, "floor_s");
    const json_t *recompute = json_object_get(c->space, "recompute");
    const json_t *zero = json_object_get(c->space, "zero");
    size_t next = 0;
    if (family && !rows && floor_s * (1 - tolerance) <= c->answer_s)
        return refuse(c, layout_of(c, first), "the family's floor is not above the answer");
    if (family && !rows && c->num_met % c->sampled_every != 0)
        return true;
    for (size_t i = 0; i < json_array_size(recompute) * json_array_size(zero); i++) {
        struct plan member = *first;
        member.recompute = space_recompute(&c->named, i / json_array_size(zero));
        member.zero = number_at(zero, i % json_array_size(zero));
        if (broken_by(c, &member))
            continue;
        if (!family)
            return refuse(c, layout_of(c, &member), "keeps every rule and is of no family");
        if (rows && !check_row(c, json_array_get(rows, next++), &member, floor_s))
            return false;
        if (!rows && floor_s > evaluate_step_s(c->evaluator, &member) * (1 + same))
            return refuse(c, layout_of(c, &member), "the family's floor is above the member");
    }
    return next == json_array_size(rows) ||
           refuse(c, layout_of(c, first), "has more rows than members");
}

/* --- the product ------------------------------------------------------------------------------ */

static bool check_split(struct checker *c, struct plan plan, const json_t *split)
{
    plan.pp = (int)real_of(split, "pp");
    plan.vpp = (int)real_of(split, "vpp");
    const json_t *stages = json_object_get(split, "stages");
    int ranks = plan.tp * plan.cp * plan.pp, dp = plan.dp;
    if (ranks <= 0 || c->system->num_gpus % ranks != 0)
        return true;
    plan.dp = c->system->num_gpus / ranks;
    if (space_fixes(&c->named, "dp") && plan.dp != dp)
        return true;
    int *layers = ARENA_ARRAY(c->arena, int, json_array_size(stages));
    for (size_t i = 0; i < json_array_size(stages); i++)
        layers[i] = number_at(stages, i);
    if (stages) {
        plan.chunk_layers = layers;
        plan.num_chunk_layers = (int)json_array_size(stages);
    }
    plan.recompute = space_recompute(&c->named, 0);
    plan.zero = number_at(json_object_get(c->space, "zero"), 0);
    const char *layout = layout_of(c, &plan);
    bool ok = check_members(c, &plan, json_object_get(c->families, layout));
    c->num_met += json_object_del(c->families, layout) == 0;
    return ok;
}

/* One value of each list after the other; the split, with pp, last. */
static bool check_product(struct checker *c, struct plan plan, int depth)
{
    static const char *const names[] = { "tp", "cp", "ep", "etp", "sp", "mb" };
    int *const members[] = { &plan.tp, &plan.cp, &plan.ep, &plan.etp, NULL, &plan.microbatch };
    bool is_last = depth == LENGTH(names);
    const json_t *list = json_object_get(c->space, is_last ? "splits" : names[depth]);
    bool one_is_listed = depth == 3 && number_at(list, 0) == 1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct arena_mark mark = arena_mark(c->arena);
        int value = number_at(list, i);
        if (depth == 3 && value == 0 && (value = plan.tp) == 1 && one_is_listed)
            continue; /* etp as tp, which is 1 */
        if (depth == 4 && value == 1 && plan.tp == 1 && !space_fixes(&c->named, "sp"))
            continue;
        if (depth == 4)
            plan.sp = value != 0;
        else if (!is_last)
            *members[depth] = value;
        if (is_last ? !check_split(c, plan, json_array_get(list, i))
                    : !check_product(c, plan, depth + 1))
            return false;
        arena_reset(c->arena, mark);
    }
    return true;
}

/* The families by their first member's layout; false when one comes twice. */
static bool index_families(struct checker *c, const json_t *families)
{
    size_t i;
    json_t *family;
    json_array_foreach (families, i, family) {
        const char *first = text_of(family, "first");
        if (!first || json_object_get(c->families, first))
            return refuse(c, "families", "a family has no layout, or comes twice");
        json_object_set(c->families, first, family);
    }
    c->sampled_every = 1 + i / MOST_SAMPLED;
    return true;
}

static bool check_all(struct checker *c, const json_t *certificate)
{
    const char *base = text_of(c->space, "base");
    if ((int)real_of(certificate, "gpus") != c->system->num_gpus || !base || !c->answer ||
        !text_of(c->space, "fixed"))
        return refuse(c, "", "not a certificate of this question");
    bool ok = plan_parse(base, c->arena, &c->base, c->err);
    const json_t *selective = json_array_get(json_object_get(c->space, "recompute"), 1);
    if (selective && strcmp(json_string_value(selective), "op-selective") == 0)
        c->base.replays = REPLAYS_PER_OP;
    if (!ok || !space_has_usual_lists(&c->named) ||
        !index_families(c, json_object_get(certificate, "families")) ||
        !check_product(c, c->base, 0))
        return false;
    if (json_object_size(c->families) > 0)
        return refuse(c, json_object_iter_key(json_object_iter(c->families)),
                      "the family is not of the space");
    return c->answer_was_timed || refuse(c, "answer", "the answer is not among the timed plans");
}

bool certificate_check(const json_t *certificate, const struct system *system,
                       const struct model *model, struct err *err)
{
    struct arena arena = { 0 };
    const json_t *answer = json_object_get(certificate, "answer");
    double most_bytes = real_of(certificate, "max_memory_bytes");
    double fits_bytes = memory_fits_bytes(system);
    struct checker c = {
        .space = json_object_get(certificate, "space"),
        .system = system,
        .model = model,
        .evaluator = evaluator_new(system, model),
        .arena = &arena,
        .err = err,
        .answer_s = real_of(answer, "step_s"),
        .answer = text_of(answer, "layout"),
        .planned_bytes = most_bytes > 0 ? fmin(fits_bytes, most_bytes) : fits_bytes,
        .risk = real_of(certificate, "oom_risk"),
        .families = json_object(),
    };
    c.named = (struct named_space){ c.space, &c.base, system, model, err };
    bool ok = check_all(&c, certificate);
    json_decref(c.families);
    evaluator_free(c.evaluator);
    arena_release(&arena);
    return ok;
}
