#include "tests/search/certificate_check.h"

#include "sim/cost/piece.h"
#include "sim/engine/memory_interval.h"
#include "sim/engine/simulate.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Relative tolerances. `tolerance` allows for rounding, because the search adds times in another
 * order. `same` is for times and bytes that must be equal. */
static const double tolerance = 1e-12, same = 1e-9;
enum { MOST_VALUES = 4096 };

struct checker {
    struct plan *splits; /* a split of layers over stages; only pp, vpp and chunk_layers of the plan
                            are used */
    const char *fixed, *answer; /* `answer` is NULL if no plan is feasible */
    const struct system *system;
    const struct model *model;
    struct evaluator *evaluator;
    struct arena *arena;
    struct err *err;
    struct plan base;
    double answer_s, planned_bytes, risk;
    json_t *families; /* families of plans, keyed by the layout of the first member; a family is
                         removed once it is checked */
    size_t num_splits, sampled_every, num_met;
    bool only_even, has_parts, answer_was_timed;
};

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

static bool breaks_rule(const struct checker *c, const struct plan *plan)
{
    struct err ignored = { .code = ERR_INFEASIBLE };
    bool is_gone = plan->pp > 1 && plan->zero > c->system->stack.shards.pipeline_zero;
    return is_gone || plan_check(plan, c->model, c->model->batch, c->system->num_gpus, &ignored);
}

/* --- the space, by the words of --fix --- */

/* Whether --fix has this word: the letters of its name, then a digit, '=' or its end. */
static bool fixes(const struct checker *c, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = c->fixed; (at = strstr(at, word)); at += length)
        if ((at == c->fixed || at[-1] == ' ') && strchr("0123456789= ", at[length]))
            return true; /* strchr also finds the terminating 0 */
    return false;
}

/* Which values a word may have: divisors of the number of GPUs ('g') or of experts ('e'), powers of
 * two ('2'), or a list. */
#define OF(member) offsetof(struct plan, member)
static const struct word {
    const char *name;
    size_t member;
    int of, most, count, at[5];
} words[] = {
    { "tp", OF(tp), 'g', 64, 0, { 0 } },
    { "cp", OF(cp), '2', 8, 0, { 0 } },
    { "ep", OF(ep), 'e', MOST_VALUES, 0, { 0 } },
    { "etp", OF(etp), 0, 0, 2, { 1, 0 } }, /* 0 means the value of tp */
    { "sp", OF(sp), 0, 0, 2, { 0, 1 } },
    { "mb", OF(microbatch), 0, 0, 5, { 1, 2, 4, 8, 16 } },
    { "pp", OF(pp), 'g', MOST_VALUES, 0, { 0 } },
    { "recompute", OF(recompute), 0, 0, 3, { 0, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL } },
    { "zero", OF(zero), 0, 0, 4, { 0, 1, 2, 3 } },
};
enum { SP = 4, PP = 6, RECOMPUTE, ZERO };

/* A pointer to the word's value in a plan. Must not be called for sp, whose value is a bool. */
static int *value_in(struct plan *plan, int word)
{
    return (int *)((char *)plan + words[word].member);
}

static int values_of(const struct checker *c, int number, int at[MOST_VALUES])
{
    const struct word *word = &words[number];
    int gpus = c->system->num_gpus, count = 0, of = word->of == 'e' ? c->model->experts : gpus;
    struct plan base = c->base;
    bool splits = plan_attention_kernel(&base, c->system) != ATTENTION_UNFUSED;
    bool is_fixed = fixes(c, word->name) || (word->of == '2' && !splits);
    at[0] = !is_fixed ? 1 : number == SP ? base.sp : *value_in(&base, number);
    if (is_fixed || (c->model->experts == 0 && word->name[0] == 'e'))
        return 1;
    memcpy(at, word->at, sizeof word->at);
    for (int d = 1; word->of && d <= of && d <= gpus && d <= word->most; d++)
        if (of % d == 0 && (word->of != '2' || (d & (d - 1)) == 0))
            at[count++] = d;
    return word->of ? count : word->count;
}

/* Whether the space has this split, or need not have it. If `empty` is 0, all chunks have the same
 * number of layers, except that the first has `first` fewer and the last has `last` fewer.
 * Otherwise the last `empty` chunks have no layers, only multi-token-prediction (MTP) modules or
 * the head, and the other chunks differ by at most one layer. MTP modules in the chunk of the last
 * layers count as layers if the head is in another chunk. */
static bool is_there(const struct checker *c, int pp, int vpp, int first, int last, int empty,
                     int place)
{
    int layers = c->model->layers, chunks = pp * vpp, used = chunks - empty;
    last += place == MTP_APART && empty == 1 ? c->model->mtp : 0;
    int sum = layers + first + last, least = sum / used;
    /* whether no such split exists */
    bool is_it = empty > 0 ? chunks - 1 > layers || least < last : sum % used != 0;
    is_it = is_it || (fixes(c, "vpp") && vpp != c->base.vpp) || (empty && c->model->mtp == 0) ||
            (fixes(c, "mtp") && place != c->base.mtp_place);
    for (const struct plan *s = c->splits; !is_it && s < c->splits + c->num_splits; s++) {
        is_it = s->pp == pp && s->vpp == vpp && s->mtp_place == place;
        for (int k = 0, rest = sum; is_it && k < chunks; k++) {
            int has = s->chunk_layers ? s->chunk_layers[k] : layers / chunks;
            rest -= has += (k == 0 ? first : 0) + (k == used - 1 ? last : 0);
            is_it = k < used ? has == least || (empty && has == least + 1) : has == 0 && rest == 0;
        }
    }
    return is_it;
}

/* Checks that the space has the even splits, and the splits that count the embedding, the loss or
 * each of them as a layer. Also checks the up to three splits that have MTP modules or the head in
 * chunks without layers. With several chunks per stage, the space needs these three only if it has
 * another split into as many chunks. */
static bool has_usual_splits(struct checker *c)
{
    int pps[MOST_VALUES], count = values_of(c, PP, pps), layers = c->model->layers, has_all = 1;
    for (int i = 0; i < count && !fixes(c, "stages"); i++)
        for (int vpp = 1, pp = pps[i]; pp * vpp <= layers + 2 && (pp > 1 || vpp == 1); vpp++) {
            int chunks = pp * vpp, missing = (chunks - layers % chunks) % chunks;
            bool is_plain = c->only_even || pp == 1, is_near = vpp == 1 || missing <= 2;
            is_near = is_near || (layers % pp > 0 && pp - layers % pp > 2 && chunks <= layers);
            for (int kind = 0; kind < (is_plain ? 1 : missing == 1 ? 3 : 4); kind++)
                has_all = has_all && is_there(c, pp, vpp, kind & 1, kind >> 1, 0, MTP_BESIDE);
            for (int kind = 0; !is_plain && is_near && kind < (pp > 2 ? 3 : 1); kind++)
                has_all = has_all && is_there(c, pp, vpp, 0, 0, 1 + (kind == 2), kind > 0);
        }
    return has_all || refuse(c, "splits", "a split of the space is missing");
}

/* --- members ---------------------------------------------------------------------------------- */

static bool are_over(const struct checker *c, double bytes)
{
    return bytes > c->planned_bytes ||
           (c->risk > 0 && memory_risk(c->system, bytes) > c->risk * (1 + same));
}

/* The peak memory of a member. For full recompute it is the minimum over recompute=full and all
 * recompute=full:K. */
static double least_bytes(struct checker *c, struct plan plan)
{
    bool groups = plan.recompute == RECOMPUTE_FULL && !fixes(c, "recompute");
    double bytes = evaluate_peak_bytes(c->evaluator, &plan);
    plan.recompute = groups ? RECOMPUTE_EVERY : plan.recompute;
    for (plan.recompute_every = 2; groups && plan.recompute_every <= c->model->layers;
         plan.recompute_every++)
        if (!breaks_rule(c, &plan))
            bytes = fmin(bytes, evaluate_peak_bytes(c->evaluator, &plan));
    return bytes;
}

/* Checks a member's row, an array of values in the certificate. A row with four values holds for
 * every set of modules that selective recompute can repeat. For full recompute, the row's layout
 * may have any full:K instead of full. */
static bool check_row(struct checker *c, const json_t *row, const struct plan *member)
{
    const char *layout, *why;
    double value;
    struct plan named = *member, plan;
    named.replays = json_array_size(row) == 4 ? c->base.replays : member->replays;
    if (json_unpack((json_t *)row, "[s, s, F]", &layout, &why, &value) != 0 ||
        !plan_parse(layout, c->arena, &plan, c->err))
        return refuse(c, layout_of(c, member), "the member has no row");
    struct plan plain = plan;
    if (plain.recompute == RECOMPUTE_EVERY && !fixes(c, "recompute"))
        plain.recompute = RECOMPUTE_FULL;
    if (strcmp(layout_of(c, &plain), layout_of(c, &named)) != 0)
        return refuse(c, layout_of(c, member), "the member has no row of its own");
    plan.replays = member->replays;
    double step_s = evaluate_step_s(c->evaluator, &plan);
    bool is_bounded = strcmp(why, "bound") == 0 && value * (1 - tolerance) > c->answer_s &&
                      value <= step_s * (1 + same);
    bool is_over = strcmp(why, "memory") == 0 && are_over(c, least_bytes(c, plan));
    bool is_timed = strcmp(why, "time") == 0 && fabs(value / step_s - 1) <= same &&
                    step_s >= c->answer_s * (1 - tolerance) &&
                    !are_over(c, evaluate_peak_bytes(c->evaluator, &plan));
    c->answer_was_timed |= is_timed && c->answer && strcmp(layout, c->answer) == 0 &&
                           fabs(c->answer_s / step_s - 1) <= same;
    return is_bounded || is_over || is_timed ||
           refuse(c, layout, "the bound, memory or time in the member's row is wrong");
}

/* Changes *member to member number *number of the family and increments *number; returns false if
 * there is none. Selective recompute gives one member for each set of recomputed modules in the
 * space. */
static bool next_member(const struct checker *c, struct plan *member, int *number)
{
    int recomputes[MOST_VALUES], zeros[MOST_VALUES], count = values_of(c, RECOMPUTE, recomputes);
    int num_zeros = values_of(c, ZERO, zeros), sets = REPLAYS_PER_OP;
    for (; *number < count * num_zeros * sets; ++*number) {
        unsigned parts = (unsigned)(*number % sets);
        member->recompute = recomputes[*number / sets / num_zeros];
        member->zero = zeros[*number / sets % num_zeros];
        bool is_open = c->has_parts && member->recompute == RECOMPUTE_SELECTIVE;
        member->replays = is_open && parts != REPLAYS_CORE ? parts : c->base.replays;
        unsigned other = parts & ~(is_open ? plan_possible_replays(c->model) : 0);
        if (other == 0 && (parts > 0 || !is_open) && !breaks_rule(c, member))
            return ++*number > 0;
    }
    return false;
}

/* Checks a family's members. If a family has no rows for its members, one lower bound of time or of
 * memory must rule out the whole family. */
static bool check_members(struct checker *c, const struct plan *first, const json_t *family)
{
    const json_t *rows = json_object_get(family, "members");
    double floor_s = json_number_value(json_object_get(family, "floor_s"));
    double floor_bytes = json_number_value(json_object_get(family, "floor_bytes"));
    struct plan member = *first, last = *first;
    size_t next = 0;
    bool is_floored = floor_s * (1 - tolerance) > c->answer_s || are_over(c, floor_bytes);
    if (family && !rows && (!is_floored || c->num_met % c->sampled_every != 0))
        return is_floored || refuse(c, layout_of(c, first), "no lower bound rules out the family");
    for (int number = 0; next_member(c, &member, &number); last = member) {
        if (!family)
            return refuse(c, layout_of(c, &member), "breaks no rule but belongs to no family");
        bool is_same = next > 0 && json_array_size(json_array_get(rows, next - 1)) == 4 &&
                       last.recompute == member.recompute && last.zero == member.zero;
        next += rows && !is_same;
        if (rows && !check_row(c, json_array_get(rows, next - 1), &member))
            return false;
        if (floor_s > evaluate_step_s(c->evaluator, &member) * (1 + same) ||
            floor_bytes > least_bytes(c, member) * (1 + same))
            return refuse(c, layout_of(c, &member),
                          "the family's lower bound is above the member's time or memory");
    }
    return next == json_array_size(rows) ||
           refuse(c, layout_of(c, first), "has more rows than members");
}

/* --- the product of the values ---------------------------------------------------------------- */

static bool check_split(struct checker *c, struct plan plan, const struct plan *split)
{
    int ranks = plan.tp * plan.cp * split->pp, dp = plan.dp;
    plan.pp = split->pp;
    plan.vpp = split->vpp;
    plan.chunk_layers = split->chunk_layers;
    plan.num_chunk_layers = split->num_chunk_layers;
    plan.mtp_place = split->mtp_place;
    plan.dp = c->system->num_gpus / ranks;
    if (c->system->num_gpus % ranks != 0 || (fixes(c, "dp") && plan.dp != dp))
        return true;
    plan.recompute = fixes(c, "recompute") ? plan.recompute : RECOMPUTE_NONE;
    plan.zero = fixes(c, "zero") ? plan.zero : 0;
    struct arena_mark mark = arena_mark(c->arena);
    const char *layout = layout_of(c, &plan);
    bool ok = check_members(c, &plan, json_object_get(c->families, layout));
    c->num_met += json_object_del(c->families, layout) == 0;
    arena_reset(c->arena, mark);
    return ok;
}

/* Tries every combination of values. Each level of the recursion sets one word; pp and the split
 * come last. */
static bool check_product(struct checker *c, struct plan plan, int word)
{
    int values[MOST_VALUES], count = word == PP ? 0 : values_of(c, word, values);
    bool ok = true;
    for (size_t i = 0; ok && word == PP && i < c->num_splits; i++)
        ok = check_split(c, plan, &c->splits[i]);
    for (int i = 0; ok && i < count; i++) {
        bool is_etp = values[i] == 0 && word < SP;
        if (plan.tp == 1 && (is_etp || (word == SP && values[i] == 1 && !fixes(c, "sp"))))
            continue; /* with tp1 there is no other etp, and no sp */
        plan.sp = word == SP ? values[i] != 0 : plan.sp;
        if (word != SP)
            *value_in(&plan, word) = is_etp ? plan.tp : values[i];
        ok = check_product(c, plan, word + 1);
    }
    return ok;
}

/* Reads the families, keyed by the layout of their first member, and the splits. */
static bool read_lists(struct checker *c, const json_t *families, const json_t *splits)
{
    size_t i;
    json_t *at;
    c->splits = ARENA_ARRAY(c->arena, struct plan, json_array_size(splits));
    json_array_foreach (splits, c->num_splits, at)
        if (!json_is_string(at) ||
            !plan_parse(json_string_value(at), c->arena, &c->splits[c->num_splits], c->err))
            return refuse(c, "splits", "a split is not a valid layout");
    json_array_foreach (families, i, at) {
        const char *first = json_string_value(json_object_get(at, "first"));
        if (!first || json_object_get(c->families, first))
            return refuse(c, "families", "a family has no layout or occurs twice");
        json_object_set(c->families, first, at);
    }
    c->sampled_every = 1 + i / CERTIFICATE_SAMPLED;
    return true;
}

static bool check_all(struct checker *c, const json_t *certificate)
{
    const char *base, *name;
    const json_t *families, *splits, *answer;
    int gpus;
    if (json_unpack((json_t *)certificate, "{s:i, s:F, s:F, s:s, s:o, s:o, s:{s:s, s:s, s:o}}",
                    "gpus", &gpus, "oom_risk", &c->risk, "max_memory_bytes", &c->planned_bytes,
                    "space_name", &name, "answer", &answer, "families", &families, "space", "base",
                    &base, "fixed", &c->fixed, "splits", &splits) != 0 ||
        gpus != c->system->num_gpus || !plan_parse(base, c->arena, &c->base, c->err) ||
        !strstr(name, c->fixed))
        return refuse(c, "", "not a certificate of this question");
    int bad =
        json_unpack((json_t *)answer, "{s:s, s:F}", "layout", &c->answer, "step_s", &c->answer_s);
    if (bad != 0 && !json_is_null(answer))
        return refuse(c, "answer", "is not a plan with a time");
    c->only_even = strstr(name, "even chunks") != NULL;
    c->has_parts = strstr(name, "selective recompute of the fastest modules") != NULL;
    c->planned_bytes =
        fmin(memory_fits_bytes(c->system), c->planned_bytes > 0 ? c->planned_bytes : HUGE_VAL);
    if (c->system->stack.unstated.per_op && !fixes(c, "recompute") && c->base.replays == 0)
        c->base.replays = REPLAYS_PER_OP;
    if (!read_lists(c, families, splits) || !has_usual_splits(c) || !check_product(c, c->base, 0))
        return false;
    if (json_object_size(c->families) > 0)
        return refuse(c, json_object_iter_key(json_object_iter(c->families)),
                      "the family does not belong to the space");
    return !c->answer || c->answer_was_timed ||
           refuse(c, "answer", "the answer is not among the timed plans");
}

bool certificate_check(const json_t *certificate, const struct system *system,
                       const struct model *model, struct err *err)
{
    struct arena arena = { 0 };
    struct evaluator *e = evaluator_new(system, model);
    struct checker c = { .system = system, .model = model, .evaluator = e, .err = err };
    c.arena = &arena, c.families = json_object(), c.answer_s = HUGE_VAL;
    bool ok = check_all(&c, certificate);
    json_decref(c.families);
    evaluator_free(e);
    arena_release(&arena);
    return ok;
}
