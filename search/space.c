/* A space of plans, and a walk through it. A block is a set of plans with equal rank order, degrees
 * of all axes and microbatch. A split is a division of the layers over the chunks. A family is the
 * plans of a block with one split; they differ only in recompute and ZeRO. A site is a block in all
 * rank orders. */
#include "search/space.h"

#include "base/length.h"
#include "base/text.h"
#include "models/blocks.h"
#include "models/layer.h"
#include "sim/cost/piece.h"
#include "sim/plan/axis.h"
#include "sim/plan/ranks.h"
#include "sim/plan/tokens.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static struct values one_value(int value, struct arena *arena)
{
    struct values values = { ARENA_NEW(arena, int), 1 };
    values.at[0] = value;
    return values;
}

static struct values copy_values(const int *from, int count, struct arena *arena)
{
    struct values values = { ARENA_ARRAY(arena, int, (size_t)count), count };
    memcpy(values.at, from, (size_t)count * sizeof *from);
    return values;
}

static int take_digit(size_t *number, int base)
{
    int digit = (int)(*number % (size_t)base);
    *number /= (size_t)base;
    return digit;
}

static const int default_switch[] = { 0, 1 };
static const int default_microbatches[] = { 1, 2, 4, 8, 16 };
static const int default_recomputes[] = { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };
static const int default_zeros[] = { 0, 1, 2, 3 };

/* --- domains ---------------------------------------------------------------------------------- */

/* The degrees that the axis's next_degree() returns, in rising order. */
static struct values list_degrees(const struct axis *axis, const struct space *space,
                                  struct arena *arena)
{
    struct axis_case of = { space->model, space->num_gpus, &space->base, space->splits_attention };
    struct values values = { 0 };
    for (int pass = 0; pass < 2; pass++) {
        int count = 0;
        for (int degree = 0; (degree = axis->next_degree(&of, degree)) > 0; count++)
            if (pass == 1)
                values.at[count] = degree;
        if (pass == 0)
            values = (struct values){ ARENA_ARRAY(arena, int, (size_t)count), count };
    }
    return values;
}

static struct values list_etps(const struct space *space, struct arena *arena)
{
    static const int etps[] = { 1, ETP_IS_TP };
    return space->model->experts > 0 ? copy_values(etps, LENGTH(etps), arena) : one_value(1, arena);
}

/* A layout word with its list of values: all values that the word has, the result of the function
 * `list`, or an axis's degrees. A fixed word has one value. */
struct domain {
    const char *token;
    size_t values; /* offset of its list in struct space */
    size_t member; /* offset of its member in struct plan */
    bool is_flag;  /* the member is a bool, else an int */
    int count;
    const int *defaults;
    struct values (*list)(const struct space *space, struct arena *arena);
    const struct axis *axis;
};
#define DOMAIN(token, name) token, offsetof(struct space, name), offsetof(struct plan, name)
#define LISTED(values)      .count = LENGTH(values), .defaults = values
static const struct domain domains_of_words[] = {
    { DOMAIN("etp", etp), .list = list_etps },
    { DOMAIN("sp", sp), .is_flag = true, LISTED(default_switch) },
    { DOMAIN("mb", microbatch), LISTED(default_microbatches) },
    { DOMAIN("recompute", recompute), LISTED(default_recomputes) },
    { DOMAIN("zero", zero), LISTED(default_zeros) },
};
/* Words without a list of values: they follow from other words, or are checked when a plan is
 * complete. */
static const char *const derived[] = { "dp", "vpp", "stages", "mtp", "schedule" };

/* Words of axes come first, then the other words. */
static int num_domains(void)
{
    return num_axes + LENGTH(domains_of_words);
}

static struct domain domain_at(int number)
{
    if (number >= num_axes)
        return domains_of_words[number - num_axes];
    return (struct domain){
        .token = axes[number]->name,
        .values = offsetof(struct space, degree) + (size_t)number * sizeof(struct values),
        .member = offsetof(struct plan, degree) + (size_t)number * sizeof(int),
        .axis = axes[number],
    };
}

/* False for an axis whose degree follows from the others. */
static bool has_values(const struct domain *domain)
{
    return !domain->axis || domain->axis->next_degree;
}

static int value_in(const struct domain *domain, const struct plan *plan)
{
    const char *at = (const char *)plan + domain->member;
    return domain->is_flag ? *(const bool *)at : *(const int *)at;
}

static void set_value(const struct domain *domain, struct plan *plan, int value)
{
    char *at = (char *)plan + domain->member;
    if (domain->is_flag)
        *(bool *)at = value != 0;
    else
        *(int *)at = value;
}

static struct values list_domain(const struct domain *domain, const struct space *space,
                                 bool is_fixed, struct arena *arena)
{
    if (is_fixed)
        return one_value(value_in(domain, &space->base), arena);
    if (domain->axis)
        return list_degrees(domain->axis, space, arena);
    return domain->list ? domain->list(space, arena)
                        : copy_values(domain->defaults, domain->count, arena);
}

static void keep_allowed(const struct space *space, const struct domain *domain,
                         struct values *values)
{
    struct plan probe = space->base;
    int kept = 0;
    for (int i = 0; i < values->count; i++) {
        set_value(domain, &probe, values->at[i]);
        if (forbidden_allows(&space->forbidden, domain->token, &probe))
            values->at[kept++] = values->at[i];
    }
    values->count = kept;
}

static struct values *values_of(const struct domain *domain, struct space *space)
{
    return (struct values *)((char *)space + domain->values);
}

/* Inserts a value in rising order. Values of words are ordered by their enum. */
static void add_value(struct values *values, int value, struct arena *arena)
{
    int *at = ARENA_ARRAY(arena, int, (size_t)values->count + 1);
    int before = 0;
    while (before < values->count && values->at[before] < value)
        before++;
    if (before < values->count && values->at[before] == value)
        return;
    memcpy(at, values->at, (size_t)before * sizeof *at);
    at[before] = value;
    memcpy(at + before + 1, values->at + before, (size_t)(values->count - before) * sizeof *at);
    *values = (struct values){ at, values->count + 1 };
}

static void add_values_of(struct space *space, const struct plan *also, unsigned fixed,
                          struct arena *arena)
{
    for (int i = 0; i < num_domains(); i++) {
        struct domain domain = domain_at(i);
        if (has_values(&domain) && !words_have(fixed, domain.token))
            add_value(values_of(&domain, space), value_in(&domain, also), arena);
    }
    if (words_have(fixed, "recompute"))
        return;
    space->base.recompute_every = also->recompute_every;
    space->base.recompute_layers = also->recompute_layers;
    space->base.num_recompute_layers = also->num_recompute_layers;
    space->base.recompute_share = also->recompute_share;
    if (also->recompute == RECOMPUTE_SELECTIVE) {
        space->base.replays = also->replays;
        space->base.stage_replays = also->stage_replays;
        space->base.num_stage_replays = also->num_stage_replays;
    }
}

static void list_values(struct space *space, unsigned fixed, bool placement, struct arena *arena)
{
    const struct plan *base = &space->base;
    space->orders = orders_new(base, placement && !words_have(fixed, "order"), arena);
    for (int i = 0; i < num_domains(); i++) {
        struct domain domain = domain_at(i);
        if (has_values(&domain))
            *values_of(&domain, space) =
                list_domain(&domain, space, words_have(fixed, domain.token), arena);
    }
    space->sp_is_fixed = words_have(fixed, "sp");
    space->dp = words_have(fixed, "dp") ? base->dp : 0;
    space->vpp = words_have(fixed, "vpp") ? base->vpp : 0;
    space->mtp_is_fixed = words_have(fixed, "mtp");
}

static bool is_searched(const char *token)
{
    for (int i = 0; i < num_domains(); i++)
        if (strcmp(domain_at(i).token, token) == 0)
            return true;
    for (size_t i = 0; i < LENGTH(derived); i++)
        if (strcmp(derived[i], token) == 0)
            return true;
    return false;
}

/* Removes forbidden values. A word that is not searched has one value; if that value is forbidden,
 * the space is empty. */
static void take_out_forbidden(struct space *space)
{
    for (int i = 0; i < num_domains(); i++) {
        struct domain domain = domain_at(i);
        keep_allowed(space, &domain, values_of(&domain, space));
    }
    for (int i = 0, count = plan_num_tokens(); i < count; i++) {
        const char *name = plan_token_at(i)->name;
        if (!is_searched(name) && !forbidden_allows(&space->forbidden, name, &space->base))
            space->tp.count = 0;
    }
}

/* Sets dp to the number of GPUs divided by the other degrees. False: they do not divide it. */
static bool take_rest(const struct space *space, struct plan *plan)
{
    int others = plan_ranks_but_data(plan);
    if (others > space->num_gpus || space->num_gpus % others != 0)
        return false;
    plan->dp = space->num_gpus / others;
    return true;
}

/* The same as take_rest(), but also checks a fixed dp. */
static bool find_data_ranks(const struct space *space, struct plan *plan)
{
    return take_rest(space, plan) && (space->dp == 0 || space->dp == plan->dp);
}

/* Whether the axis has ranks of its own and a list of degrees. */
static bool has_own_degrees(int axis)
{
    return axes[axis]->next_degree && !axes[axis]->is_folded;
}

size_t space_num_degrees(const struct space *space)
{
    size_t count = 1;
    for (int axis = 0; axis < num_axes; axis++)
        if (has_own_degrees(axis))
            count *= (size_t)space->degree[axis].count;
    return count;
}

bool space_degrees(const struct space *space, size_t number, struct plan *out)
{
    for (int axis = num_axes - 1; axis >= 0; axis--)
        if (has_own_degrees(axis)) {
            struct values degrees = space->degree[axis];
            out->degree[axis] = degrees.at[take_digit(&number, degrees.count)];
        }
    return take_rest(space, out);
}

/* Whether some combination of degrees divides the GPUs and passes `accepts`; NULL accepts all. */
static bool any_fits(const struct space *space,
                     bool (*accepts)(const struct space *space, const struct plan *plan))
{
    struct plan plan = space->base;
    for (size_t i = 0, count = space_num_degrees(space); i < count; i++)
        if (space_degrees(space, i, &plan) && find_data_ranks(space, &plan) &&
            (!accepts || accepts(space, &plan)))
            return true;
    return false;
}

/* Whether some split (division of layers over chunks) may exist for this pp. If none does, the
 * space lists one invalid split, so that the broken rule is reported. */
static bool may_split(const struct space *space, int pp)
{
    if (space->chunks == CHUNKS_EVEN)
        return space->model->layers % pp == 0;
    return pp <= space->model->layers + 2;
}

/* A necessary condition for the rules about heads, stages and batch. With most numbers of GPUs no
 * degrees satisfy it. */
static bool may_keep_rules(const struct space *space, const struct plan *plan)
{
    for (int kind = 0; kind < model_num_kinds(space->model); kind++)
        if (model_kind(space->model, kind).heads % plan->tp != 0)
            return false;
    if (!plan->chunk_layers && !may_split(space, plan->pp))
        return false;
    for (int i = 0; i < space->microbatch.count; i++)
        if (fmod(space->model->batch, (double)plan->dp * space->microbatch.at[i]) == 0)
            return true;
    return false;
}

bool space_may_have_plans(const struct space *space)
{
    return any_fits(space, may_keep_rules);
}

/* --- splits -------------------------------------------------------------------------------- */

static void divide_as(const struct split *split, struct plan *plan)
{
    plan->vpp = split->vpp;
    if (split->kind == SPLIT_GIVEN)
        return;
    plan->chunk_layers = split->layers;
    plan->num_chunk_layers = split->layers ? plan->pp * plan->vpp : 0;
    plan->mtp_place = (int)split->mtp_place;
}

static bool is_allowed(const struct space *space, int pp, const struct split *split)
{
    static const char *const words[] = { "vpp", "stages", "mtp", "schedule" };
    struct plan plan = space->base;
    if (space->mtp_is_fixed && (int)split->mtp_place != space->base.mtp_place)
        return false;
    plan.pp = pp;
    divide_as(split, &plan);
    for (int i = 0; i < LENGTH(words); i++)
        if (!forbidden_allows(&space->forbidden, words[i], &plan))
            return false;
    return true;
}

/* A list given by the user implies one vpp for each pp; a vpp that is no integer breaks a rule. */
static struct splits given_split(const struct space *space, int pp, struct arena *arena)
{
    int count = space->base.num_chunk_layers;
    int vpp = space->vpp > 0 ? space->vpp : pp > 1 && count % pp == 0 ? count / pp : 1;
    struct splits splits = { ARENA_NEW(arena, struct split), 1 };
    splits.at[0] = (struct split){ .vpp = vpp,
                                   .kind = SPLIT_GIVEN,
                                   .mtp_place = (enum mtp_place)space->base.mtp_place };
    return splits;
}

bool split_is_of(const struct split *split, const struct plan *plan)
{
    if (split->vpp != plan->vpp || (int)split->mtp_place != plan->mtp_place)
        return false;
    if (!split->layers || !plan->chunk_layers)
        return split->layers == plan->chunk_layers;
    return memcmp(split->layers, plan->chunk_layers,
                  (size_t)plan->num_chunk_layers * sizeof *split->layers) == 0;
}

static bool has_split(const struct splits *splits, const struct plan *plan)
{
    for (int i = 0; i < splits->count; i++)
        if (split_is_of(&splits->at[i], plan))
            return true;
    return false;
}

static void add_split_of(const struct plan *also, struct splits *splits, struct arena *arena)
{
    if (has_split(splits, also))
        return;
    struct split *at = ARENA_ARRAY(arena, struct split, (size_t)splits->count + 1);
    int before = 0;
    while (before < splits->count && splits->at[before].vpp <= also->vpp)
        before++;
    memcpy(at, splits->at, (size_t)before * sizeof *at);
    at[before] = (struct split){ also->vpp, SPLIT_ALSO, also->chunk_layers,
                                 (enum mtp_place)also->mtp_place };
    memcpy(at + before + 1, splits->at + before, (size_t)(splits->count - before) * sizeof *at);
    *splits = (struct splits){ at, splits->count + 1 };
}

/* Number of blocks with equal degrees. */
static size_t blocks_of_words(const struct space *space)
{
    return (size_t)space->etp.count * (size_t)space->sp.count * (size_t)space->microbatch.count;
}

/* Whether the axis has a list of degrees and is not the pipeline. */
static bool is_listed_axis(int axis)
{
    return axis != AXIS_PIPELINE && axes[axis]->next_degree;
}

/* Fills space->divides: for each combination of the other axes' degrees and each pp, in the order
 * of blocks, whether they divide the GPUs. */
static void list_divisors(struct space *space, struct arena *arena)
{
    space->num_divides = 1;
    for (int axis = 0; axis < num_axes; axis++)
        if (is_listed_axis(axis))
            space->num_divides *= (size_t)space->degree[axis].count;
    space->divides = ARENA_ARRAY(arena, bool, space->num_divides *(size_t)space->pp.count);
    bool *divides = space->divides;
    for (size_t i = 0; i < space->num_divides; i++) {
        struct plan plan = space->base;
        size_t rest = i;
        for (int axis = num_axes - 1; axis >= 0; axis--)
            if (is_listed_axis(axis))
                plan.degree[axis] =
                    space->degree[axis].at[take_digit(&rest, space->degree[axis].count)];
        for (int pp = 0; pp < space->pp.count; pp++) {
            plan.pp = space->pp.at[pp];
            *divides++ = take_rest(space, &plan);
        }
    }
}

void space_list_splits(struct space *space, struct arena *arena)
{
    list_divisors(space, arena);
    struct split_request request = {
        .model = space->model,
        .vpp = space->vpp,
        .space = space->chunks,
        .head_layers = space->head_layers,
    };
    space->splits = ARENA_ARRAY(arena, struct splits, (size_t)space->pp.count);
    for (int i = 0; i < space->pp.count; i++) {
        struct splits *splits = &space->splits[i];
        request.pp = space->pp.at[i];
        *splits = space->base.chunk_layers ? given_split(space, request.pp, arena)
                                           : splits_of(&request, arena);
        if (space->also && space->also->pp == request.pp && !space->base.chunk_layers)
            add_split_of(space->also, splits, arena);
        int kept = 0;
        for (int j = 0; j < splits->count; j++)
            if (is_allowed(space, request.pp, &splits->at[j]))
                splits->at[kept++] = splits->at[j];
        splits->count = kept;
    }
}

static const char *name_space(const struct space *space, const struct space_request *request,
                              struct arena *arena)
{
    struct text name = { 0 };
    const struct plan *base = &space->base;
    struct plan usual = plan_default();
    bool megatron_order = memcmp(base->order, usual.order, sizeof usual.order) == 0;
    text_add(&name, "%s; %s rank order; all values of tp%s pp dp mb vpp sp zero recompute",
             base->chunk_layers             ? "given chunks"
             : space->chunks == CHUNKS_EVEN ? "even chunks"
                                            : "layers divided as Megatron can",
             space->orders.count > 1 ? "every"
             : megatron_order        ? "Megatron's"
                                     : "the given",
             space->splits_attention ? " cp" : "");
    for (int axis = NUM_NAMED_AXES; axis < num_axes; axis++)
        text_add(&name, " %s", axes[axis]->name);
    if (!space->splits_attention)
        text_add(&name, "; cp %d", base->cp);
    if (space->model->experts > 0)
        text_add(&name, "; ep and etp folded over tp, cp and dp");
    else
        text_add(&name, "; ep %d", base->ep);
    if (space->model->mtp > 0 && space->chunks != CHUNKS_EVEN && !base->chunk_layers &&
        !space->mtp_is_fixed)
        text_add(&name,
                 "; multi-token-prediction modules in the head's chunk or in the chunk before it");
    if (space->picks_modules)
        text_add(&name, "; selective recompute of the fastest modules that fit");
    if (request->fix && *words_begin(request->fix))
        text_add(&name, "; fixed %s", words_begin(request->fix));
    if (request->forbid && *words_begin(request->forbid))
        text_add(&name, "; without %s", words_begin(request->forbid));
    if (request->also) {
        text_add(&name, "; also the settings of ");
        plan_write(request->also, &name);
    }
    return text_keep(&name, arena);
}

/* The highest ZeRO stage that is tried with a pipeline. It is the highest of all if a reshard= word
 * is given, or if the plan added to the space has a pipeline and shards gradients; else it is that
 * of the stack, or 1 without a system. */
static int pipeline_zero_of(const struct space_request *request, const struct plan *base)
{
    enum { HIGHEST_ZERO = 3 };
    const struct plan *also = request->also;
    bool is_asked = base->reshard != RESHARD_EACH_STEP ||
                    (also && also->pp > 1 && plan_cuts(also, STATE_GRADIENTS));
    if (is_asked || !request->system)
        return is_asked ? HIGHEST_ZERO : 1;
    return request->system->stack.shards.pipeline_zero;
}

bool space_new(const struct space_request *request, struct arena *arena, struct space *out,
               struct err *err)
{
    const char *fix = request->fix ? request->fix : "";
    unsigned fixed = words_tokens(fix, arena);
    *out = (struct space){ .model = request->model,
                           .num_gpus = request->num_gpus,
                           .chunks = request->chunks };
    if (!words_apply(request->base, fix, fixed, arena, &out->base, err) ||
        !forbidden_read(request->forbid ? request->forbid : "", arena, &out->forbidden, err))
        return false;
    out->pipeline_zero = pipeline_zero_of(request, &out->base);
    if (request->system && request->system->stack.unstated.per_op &&
        !words_have(fixed, "recompute") && out->base.replays == 0)
        out->base.replays = REPLAYS_PER_OP;
    out->splits_attention =
        !request->system || plan_attention_kernel(&out->base, request->system) != ATTENTION_UNFUSED;
    list_values(out, fixed, request->placement, arena);
    if (request->also)
        add_values_of(out, request->also, fixed, arena);
    if (request->also && !words_have(fixed, "stages") && !words_have(fixed, "vpp"))
        out->also = request->also;
    take_out_forbidden(out);
    /* if activations are kept on the host, full:K copies other data than full, so it cannot replace
     * full */
    out->groups_layers = !words_have(fixed, "recompute") &&
                         !plan_offloads(&out->base, OFFLOAD_ACTIVATIONS) &&
                         !(request->also && request->also->recompute == RECOMPUTE_EVERY);
    out->picks_modules = request->recompute_modules && !words_have(fixed, "recompute") &&
                         out->base.replays != REPLAYS_PER_OP && !out->base.stage_replays;
    out->head_layers = model_head_layers(out->model, out->model->seq);
    space_list_splits(out, arena);
    out->fits_gpus = any_fits(out, NULL);
    out->name = name_space(out, request, arena);
    return true;
}

/* When no combination of values divides the GPUs, only the first value of each list is tried, so
 * that the broken rule is reported. */
static bool set_data_ranks(const struct space *space, bool is_first, struct plan *plan)
{
    plan->dp = space->dp > 0 ? space->dp : 1;
    bool stands = space->fits_gpus ? find_data_ranks(space, plan) : is_first;
    return stands && forbidden_allows(&space->forbidden, "dp", plan);
}

/* An error that is already set, so that rules do not format their message, which nobody reads
 * here. */
static struct err unread(void)
{
    struct err err;
    err.code = ERR_INFEASIBLE;
    return err;
}

static const struct plan_rule *check_group(const struct space *space, const struct plan *plan,
                                           enum rule_group group)
{
    struct err ignored = unread();
    return plan_check_group(plan, space->model, space->model->batch, space->num_gpus, group,
                            &ignored);
}

/* Whether the stack does not support the plan's ZeRO stage with the plan's pipeline. */
static bool stack_refuses(const struct space *space, const struct plan *plan)
{
    return plan->pp > 1 && plan_cuts_beyond(plan, space->pipeline_zero);
}

bool space_may_shard(const struct space *space, const struct plan *plan)
{
    struct err ignored = unread();
    struct plan_case of = { .plan = plan,
                            .model = space->model,
                            .global_batch = space->model->batch,
                            .num_gpus = space->num_gpus };
    return !stack_refuses(space, plan) && plan_shard_rule()->holds(&of, &ignored);
}

/* The first broken rule. `broken` is the first broken rule among those that do not depend on the
 * stack. */
static const struct plan_rule *with_stack(const struct space *space, const struct plan *plan,
                                          const struct plan_rule *broken)
{
    if (!stack_refuses(space, plan))
        return broken;
    const struct plan_rule *zero = plan_shard_rule();
    bool is_earlier = broken && plan_rule_number(broken) < plan_rule_number(zero);
    return is_earlier ? broken : zero; /* rules are checked in this order */
}

const struct plan_rule *space_check(const struct space *space, const struct plan *plan)
{
    struct err ignored = unread();
    return with_stack(
        space, plan,
        plan_check(plan, space->model, space->model->batch, space->num_gpus, &ignored));
}

double space_family_size(const struct space *space)
{
    return (double)space->recompute.count * space->zero.count;
}

/* The rule that all candidates of a family break; NULL: none. */
static const struct plan_rule *family_breaks(const struct space *space, const struct plan *first)
{
    const struct plan_rule *broken = check_group(space, first, RULES_OF_BLOCK);
    return broken ? broken : check_group(space, first, RULES_OF_SPLIT);
}

static const struct plan_rule *member_breaks(const struct space *space, const struct plan *plan,
                                             const struct plan_rule *of_family)
{
    return with_stack(space, plan,
                      of_family ? of_family : check_group(space, plan, RULES_OF_STATE));
}

bool space_walk_family(const struct space *space, const struct plan *first,
                       const struct visitor *visitor)
{
    struct plan plan = *first;
    const struct plan_rule *of_family = family_breaks(space, first);
    for (int i = 0; i < space->recompute.count; i++)
        for (int j = 0; j < space->zero.count; j++) {
            plan.recompute = space->recompute.at[i];
            plan.zero = space->zero.at[j];
            const struct plan_rule *broken = member_breaks(space, &plan, of_family);
            if (broken)
                visitor->exclude(visitor->context, broken, 1);
            else if (!visitor->visit(visitor->context, &plan))
                return false;
        }
    return true;
}

static bool has_possible(const struct space *space, const struct plan *first)
{
    struct plan plan = *first;
    const struct plan_rule *of_family = family_breaks(space, first);
    for (int i = 0; i < space->recompute.count; i++)
        for (int j = 0; j < space->zero.count; j++) {
            plan.recompute = space->recompute.at[i];
            plan.zero = space->zero.at[j];
            if (!member_breaks(space, &plan, of_family))
                return true;
        }
    return false;
}

/* `plan` is the family's first candidate, which keeps the rules of its block. If the size of a
 * sharding group does not divide the data ranks, the plan's groups do not exist, so nothing is
 * timed and only the broken rules are reported. */
static bool meet_family(const struct space *space, const struct plan *plan,
                        const struct visitor *visitor)
{
    const struct plan_rule *broken =
        member_breaks(space, plan, check_group(space, plan, RULES_OF_SPLIT));
    bool may_stand = !broken || plan_rule_reads_state(broken);
    if (may_stand && broken && plan->shard > 0 && !has_possible(space, plan))
        return space_walk_family(space, plan,
                                 visitor); /* reports the broken rules and visits no plan */
    if (may_stand)
        return visitor->visit(visitor->context, plan);
    visitor->exclude(visitor->context, broken, space_family_size(space));
    return true;
}

size_t space_num_blocks(const struct space *space)
{
    return (size_t)space->orders.count * space->num_divides * blocks_of_words(space) *
           (size_t)space->pp.count;
}

size_t space_num_sites(const struct space *space)
{
    return space_num_blocks(space) / (size_t)space->orders.count;
}

/* Replaces ETP_IS_TP by tp. False: the list already has tp, or tp is forbidden. */
static bool choose_expert_tensor(const struct space *space, struct plan *plan)
{
    if (plan->etp != ETP_IS_TP)
        return true;
    plan->etp = plan->tp;
    for (int i = 0; i < space->etp.count; i++)
        if (space->etp.at[i] == plan->etp)
            return false;
    return forbidden_allows(&space->forbidden, "etp", plan);
}

/* Whether the degrees of a block divide the GPUs, from the table of list_divisors. It rejects most
 * blocks, faster than block_plan. */
static bool block_divides(const struct space *space, size_t block)
{
    size_t pp = block % (size_t)space->pp.count;
    size_t of_degrees = block / (blocks_of_words(space) * (size_t)space->pp.count);
    return space->divides[of_degrees % space->num_divides * (size_t)space->pp.count + pp];
}

/* False when the block is empty. */
static bool block_plan(const struct space *space, size_t block, struct plan *plan)
{
    if (space->fits_gpus && !block_divides(space, block))
        return false;
    size_t rest = block;
    int pp = take_digit(&rest, space->pp.count);
    *plan = space->base;
    plan->microbatch = space->microbatch.at[take_digit(&rest, space->microbatch.count)];
    plan->sp = space->sp.at[take_digit(&rest, space->sp.count)] != 0;
    plan->etp = space->etp.at[take_digit(&rest, space->etp.count)];
    plan->pp = space->pp.at[pp];
    int sum = pp;
    for (int axis = num_axes - 1; axis >= 0; axis--) {
        if (!is_listed_axis(axis))
            continue;
        int digit = take_digit(&rest, space->degree[axis].count);
        plan->degree[axis] = space->degree[axis].at[digit];
        sum += axes[axis]->is_folded ? 0 : digit;
    }
    int order = (int)rest;
    bool is_first = sum + order == 0;
    if (!choose_expert_tensor(space, plan) || !set_data_ranks(space, is_first, plan) ||
        (plan->sp && plan->tp == 1 && !space->sp_is_fixed) ||
        !orders_is_first(&space->orders, order, plan))
        return false;
    memcpy(plan->order, space->orders.at[order], sizeof plan->order);
    plan->recompute = space->recompute.at[0];
    plan->zero = space->zero.at[0];
    return true;
}

/* When no degrees divide the GPUs, one candidate in one rank order stands for all. */
int space_site_orders(const struct space *space, size_t site, int orders[][MAX_AXES])
{
    struct plan plan;
    struct rank_orders walked = space->orders;
    if (!space->fits_gpus)
        walked.count = 1;
    return block_plan(space, site, &plan) ? orders_apart(&walked, &plan, orders) : 0;
}

static const struct split *find_split(const struct space *space, int pp_index, int number)
{
    const struct splits *splits = &space->splits[pp_index];
    for (int i = 0; i < splits->count; i++)
        if (split_number(&splits->at[i]) == number)
            return &splits->at[i];
    return NULL;
}

bool space_has_split(const struct space *space, int pp_index, int split)
{
    return find_split(space, pp_index, split) != NULL;
}

int space_split_of(const struct space *space, const struct plan *plan)
{
    for (int i = 0; i < space->pp.count; i++) {
        if (space->pp.at[i] != plan->pp)
            continue;
        const struct splits *splits = &space->splits[i];
        for (int j = 0; j < splits->count; j++) {
            const struct split *split = &splits->at[j];
            if (split->vpp == plan->vpp &&
                (split->kind == SPLIT_GIVEN || split->layers == plan->chunk_layers))
                return split_number(split);
        }
    }
    assert(!"a visited plan has a split of its space");
    return 0;
}

bool space_family(const struct space *space, size_t block, int split, struct plan *first)
{
    const struct split *found = find_split(space, (int)(block % (size_t)space->pp.count), split);
    if (!found || !block_plan(space, block, first))
        return false;
    divide_as(found, first);
    return true;
}

static const struct splits *splits_of_block(const struct space *space, size_t block)
{
    return &space->splits[block % (size_t)space->pp.count];
}

int space_begin_block(const struct space *space, size_t block, const struct visitor *visitor,
                      struct plan *first)
{
    if (space_family_size(space) == 0 || !block_plan(space, block, first))
        return 0;
    const struct splits *splits = splits_of_block(space, block);
    if (splits->count > 0)
        divide_as(&splits->at[0], first);
    const struct plan_rule *broken = check_group(space, first, RULES_OF_BLOCK);
    if (!broken)
        return splits->count;
    visitor->exclude(visitor->context, broken, space_family_size(space) * splits->count);
    return 0;
}

bool space_walk_begun(const struct space *space, size_t block, const struct plan *first,
                      const struct visitor *visitor)
{
    struct plan plan = *first;
    const struct splits *splits = splits_of_block(space, block);
    for (int i = 0; i < splits->count; i++) {
        divide_as(&splits->at[i], &plan);
        if (!meet_family(space, &plan, visitor))
            return false;
    }
    return true;
}

bool space_walk_families(const struct space *space, size_t block, const struct visitor *visitor)
{
    struct plan first;
    return space_begin_block(space, block, visitor, &first) == 0 ||
           space_walk_begun(space, block, &first, visitor);
}

/* Visits the candidates of each family with a visitor of candidates. */
struct inside {
    const struct space *space;
    const struct visitor *visitor;
};

static bool walk_inside(void *context, const struct plan *first)
{
    const struct inside *inside = context;
    return space_walk_family(inside->space, first, inside->visitor);
}

static void exclude_inside(void *context, const struct plan_rule *rule, double count)
{
    const struct inside *inside = context;
    inside->visitor->exclude(inside->visitor->context, rule, count);
}

bool space_walk_block(const struct space *space, size_t block, const struct visitor *visitor)
{
    struct inside inside = { space, visitor };
    return space_walk_families(space, block,
                               &(struct visitor){ walk_inside, exclude_inside, &inside });
}
