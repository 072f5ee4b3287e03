/* Writes the certificate of a search, a proof of its answer that others can check. A family is a
 * set of plans that differ only in recompute and ZeRO; these plans are its members. A floor is a
 * lower bound of the step times of a family. */
#include "search/certificate.h"

#include "base/length.h"
#include "base/statistics.h"
#include "base/text.h"
#include "search/method.h"
#include "search/parts.h"
#include "search/room.h"
#include "sim/plan/layout.h"

#include <math.h>

/* A walk of the space that writes its certificate. */
struct proof {
    const struct search *search;
    struct evaluator *evaluator;
    double answer_s;    /* HUGE_VAL: no plan is feasible */
    double least_bytes; /* lower bound of the peak memory of the current family's members */
    json_t *families;
    json_t *members; /* members of the current family */
    struct err *err;
};

bool certificate_can_be(const struct search_request *request, struct err *err)
{
    const struct {
        bool is_asked;
        const char *option, *why;
    } rows[] = {
        { request->objective != OBJECTIVE_TIME, "--objective", "proves only the shortest step" },
        { request->forbid && *words_begin(request->forbid), "--forbid",
          "requires a space without forbidden words" },
        { request->placement, "--placement", "requires a space with one rank order" },
        { request->uneven || request->recompute_mixes,
          request->uneven ? "--uneven" : "--recompute-mixes",
          "requires a space with equal layers and the same recompute for all stages" },
        { request->also != NULL, "--compare", "requires a space without added plans" },
    };
    for (int i = 0; i < LENGTH(rows); i++)
        if (rows[i].is_asked)
            return err_set(err, ERR_USAGE, rows[i].option,
                           "cannot be combined with --certificate, which %s", rows[i].why);
    return true;
}

/* --- families --------------------------------------------------------------------------------- */

static json_t *layout_json(const struct plan *plan)
{
    struct text layout = { 0 };
    plan_write(plan, &layout);
    json_t *json = json_string(text_get(&layout));
    text_release(&layout);
    return json;
}

static json_t *add_member(struct proof *proof, const struct plan *plan, const char *why,
                          double value)
{
    json_t *member = json_array();
    json_array_append_new(member, layout_json(plan));
    json_array_append_new(member, json_string(why));
    json_array_append_new(member, json_real(value));
    json_array_append_new(proof->members, member);
    return member;
}

/* Whether a lower bound of a member's time is above the answer's time, even after the rounding
 * error of the sum is subtracted. */
static bool is_slower(const struct proof *proof, double bound_s)
{
    return sum_floor(bound_s) > proof->answer_s;
}

static void meet_plan(struct proof *proof, const struct plan *member)
{
    double memory_bytes = proof->search->system->gpu.memory_bytes;
    struct plan plan = *member;
    double bound_s = evaluate_bound_s(proof->evaluator, &plan);
    if (is_slower(proof, bound_s)) {
        add_member(proof, &plan, "bound", bound_s);
        return;
    }
    double peak_bytes =
        plan.recompute == RECOMPUTE_SELECTIVE
            ? evaluate_peak_bytes(proof->evaluator, &plan)
            : space_peak_bytes(proof->search->space, proof->evaluator, memory_bytes, &plan);
    if (peak_bytes > memory_bytes) {
        add_member(proof, member, "memory", peak_bytes);
        return;
    }
    double step_s = evaluate_step_s(proof->evaluator, &plan);
    add_member(proof, &plan, "time", step_s);
    if (step_s < sum_floor(proof->answer_s)) {
        struct text layout = { 0 };
        plan_write(&plan, &layout);
        err_set(proof->err, ERR_SYSTEM, "--certificate",
                "%s takes %.9g s, less than the best plan (%.9g s)", text_get(&layout), step_s,
                proof->answer_s);
        text_release(&layout);
    }
}

static void add_for_every_set(struct proof *proof, const struct plan *member, const char *why,
                              double value)
{
    json_array_append_new(add_member(proof, member, why, value), json_string("every set"));
}

/* A member with selective recompute represents all sets of modules. Either one entry of the
 * certificate rules out all sets, or each set has its own entry. */
static bool meet_member(void *context, const struct plan *member)
{
    struct proof *proof = context;
    const struct space *space = proof->search->space;
    struct plan none = parts_none(space, member);
    unsigned possible = plan_possible_replays(space->model);
    if (!parts_are_open(space, member)) {
        meet_plan(proof, member);
        return true;
    }
    double bound_s = sum_floor(evaluate_bound_s(proof->evaluator, &none));
    double least_bytes = sum_floor(evaluate_leanest_bytes(proof->evaluator, member));
    if (is_slower(proof, bound_s)) {
        add_for_every_set(proof, member, "bound", bound_s);
        return true;
    }
    if (least_bytes > proof->search->system->gpu.memory_bytes) {
        add_for_every_set(proof, member, "memory", least_bytes);
        return true;
    }
    for (unsigned parts = replays_next(0, possible); parts; parts = replays_next(parts, possible)) {
        struct plan plan = parts_plan(member, parts);
        if (!space_check(space, &plan))
            meet_plan(proof, &plan);
    }
    return true;
}

static void exclude_member(void *context, const struct plan_rule *rule, double count)
{
    (void)context, (void)rule, (void)count; /* not recorded, as a checker derives the rule itself */
}

static bool lower_bytes(void *context, const struct plan *member)
{
    struct proof *proof = context;
    double bytes = sum_floor(evaluate_state_floor_bytes(proof->evaluator, member));
    proof->least_bytes = fmin(proof->least_bytes, bytes);
    return true;
}

/* A lower bound of all members' peaks, from their weights and states alone. */
static double least_bytes(struct proof *proof, const struct plan *first)
{
    struct visitor visitor = { lower_bytes, exclude_member, proof };
    proof->least_bytes = HUGE_VAL;
    space_walk_family(proof->search->space, first, &visitor);
    return proof->least_bytes < HUGE_VAL ? proof->least_bytes : 0;
}

/* A family is ruled out by a lower bound of its times or of its memory, or else a reason is given
 * for each member. */
static bool meet_family(void *context, const struct plan *first)
{
    struct proof *proof = context;
    double floor_s = evaluate_floor_s(proof->evaluator, first);
    json_t *family = json_object();
    json_object_set_new(family, "first", layout_json(first));
    json_object_set_new(family, "floor_s", json_real(floor_s));
    bool may_be_faster = sum_floor(floor_s) <= proof->answer_s;
    double floor_bytes = may_be_faster ? least_bytes(proof, first) : 0;
    if (floor_bytes > proof->search->system->gpu.memory_bytes) {
        json_object_set_new(family, "floor_bytes", json_real(floor_bytes));
    } else if (may_be_faster) {
        struct visitor visitor = { meet_member, exclude_member, proof };
        proof->members = json_array();
        space_walk_family(proof->search->space, first, &visitor);
        json_object_set_new(family, "members", proof->members);
    }
    json_array_append_new(proof->families, family);
    return true;
}

/* --- the space -------------------------------------------------------------------------------- */

/* Writes each split, a division of the layers into stages and chunks, as a layout that states
 * nothing else. */
static json_t *splits_json(const struct space *space)
{
    json_t *list = json_array();
    for (int i = 0; i < space->pp.count; i++)
        for (int j = 0; j < space->splits[i].count; j++) {
            const struct split *split = &space->splits[i].at[j];
            struct plan plan = plan_default();
            plan.pp = space->pp.at[i];
            plan.vpp = split->vpp;
            plan.chunk_layers =
                split->kind == SPLIT_GIVEN ? space->base.chunk_layers : split->layers;
            plan.num_chunk_layers = plan.chunk_layers ? plan.pp * plan.vpp : 0;
            plan.mtp_place = (int)split->mtp_place;
            json_array_append_new(list, layout_json(&plan));
        }
    return list;
}

/* The splits and the values that the request fixes. A checker derives all other values of the space
 * from them. */
static json_t *space_json(const struct search_request *request, const struct space *space)
{
    json_t *object = json_object();
    json_object_set_new(object, "splits", splits_json(space));
    json_object_set_new(object, "base", layout_json(&space->base));
    json_object_set_new(object, "fixed", json_string(request->fix ? request->fix : ""));
    return object;
}

static json_t *answer_json(const struct scored_plan *answer)
{
    if (!answer)
        return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "layout", layout_json(&answer->plan));
    json_object_set_new(object, "step_s", json_real(answer->prediction.step_s));
    return object;
}

json_t *certificate_of(const struct search_request *request, const struct scored_plan *answer,
                       struct err *err)
{
    struct prepared prepared;
    struct arena arena = { 0 };
    json_t *object = NULL;
    if (certificate_can_be(request, err) && search_prepare(request, &arena, &prepared, err)) {
        struct proof proof = {
            .search = &prepared.search,
            .evaluator = evaluator_new(&prepared.system, request->model),
            .answer_s = answer ? answer->prediction.step_s : HUGE_VAL,
            .families = json_array(),
            .err = err,
        };
        struct visitor visitor = { meet_family, exclude_member, &proof };
        for (size_t i = 0; i < space_num_blocks(&prepared.space); i++)
            space_walk_families(&prepared.space, i, &visitor);
        evaluator_free(proof.evaluator);
        object = json_object();
        json_object_set_new(object, "certificate", json_integer(1));
        json_object_set_new(object, "space_name", json_string(prepared.space.name));
        json_object_set_new(object, "gpus", json_integer(prepared.space.num_gpus));
        json_object_set_new(object, "oom_risk", json_real(request->oom_risk));
        json_object_set_new(object, "max_memory_bytes", json_real(request->max_memory_bytes));
        json_object_set_new(object, "answer", answer_json(answer));
        json_object_set_new(object, "space", space_json(request, &prepared.space));
        json_object_set_new(object, "families", proof.families);
    }
    arena_release(&arena);
    if (err->code != ERR_NONE) {
        json_decref(object);
        return NULL;
    }
    return object;
}
