/* The rules that a plan must meet, in the order in which they are checked. Degrees are the numbers
 * of ranks on each axis (dp, tp, pp, ...); words are all other settings of a plan's text. */
#include "base/length.h"
#include "sim/plan/axes.h"
#include "sim/plan/fold.h"
#include "sim/plan/ranks.h"
#include "sim/schedule/schedule.h"

#include <assert.h>
#include <string.h>

/* Writes a number without printf, which is slow; rules write one text for each refused plan of a
 * search. */
struct token_text token_text(const char *name, int value)
{
    struct token_text token;
    char digits[12];
    int count = 0;
    size_t length = strlen(name);
    long long rest = value < 0 ? -(long long)value : value;
    do
        digits[count++] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0)
        digits[count++] = '-';
    if (length > sizeof token.at - sizeof digits)
        length = sizeof token.at - sizeof digits;
    memcpy(token.at, name, length);
    while (count > 0)
        token.at[length++] = digits[--count];
    token.at[length] = '\0';
    return token;
}

static bool is_positive(const char *name, int value, struct err *err)
{
    return value >= 1 ||
           err_set(err, ERR_INFEASIBLE, name, "%s is %d, but must be 1 or more", name, value);
}

static bool degrees_are_positive(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    for (int i = 0; i < num_axes; i++)
        if (!is_positive(axes[i]->name, plan->degree[i], err))
            return false;
    return is_positive("etp", plan->etp, err) && is_positive("vpp", plan->vpp, err) &&
           is_positive("mb", plan->microbatch, err);
}

static bool uses_all_gpus(const struct plan_case *of, struct err *err)
{
    if (of->plan->dp > 0 && plan_ranks(of->plan) == of->num_gpus)
        return true;
    struct plan plan = *of->plan;
    return plan_derive_data(&plan, of->num_gpus, err);
}

/* Number of layers of the largest chunk. */
static int most_layers(const struct plan_case *of)
{
    int most = 0;
    int num_chunks = of->plan->chunk_layers ? of->plan->num_chunk_layers : 1;
    for (int chunk = 0; chunk < num_chunks; chunk++) {
        int layers = plan_chunk_layers(of->plan, of->model, chunk);
        most = layers > most ? layers : most;
    }
    return most;
}

static bool blocks_fit(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    int count = plan->num_recompute_layers;
    if (count != 1 && count != plan_chunks(plan))
        return err_set(err, ERR_INFEASIBLE, "recompute",
                       "recompute=block: lists %d chunks, but pp %d x vpp %d is %d", count,
                       plan->pp, plan->vpp, plan_chunks(plan));
    for (int i = 0; i < count; i++) {
        int layers = count == 1 ? most_layers(of) : plan_chunk_layers(plan, of->model, i);
        int asked = plan->recompute_layers[i];
        if (asked < 0 || asked > layers)
            return err_set(err, ERR_INFEASIBLE, "recompute",
                           "%d layers of chunk %d are recomputed, but it has only %d", asked, i,
                           layers);
    }
    return true;
}

unsigned plan_possible_replays(const struct model *model)
{
    unsigned parts = 1u << REPLAY_CORE | 1u << REPLAY_MLP | 1u << REPLAY_NORM;
    if (model->experts > 0)
        parts |= 1u << REPLAY_EXPERTS | 1u << REPLAY_EXPERT_ACTIVATION;
    if (model->shared_ffn > 0)
        parts |= 1u << REPLAY_SHARED_EXPERT;
    if (model->kv_lora > 0)
        parts |= 1u << REPLAY_LATENT_UP;
    return parts;
}

/* Refuses selective recompute of modules that the model's blocks do not have, as Megatron Core's
 * TransformerConfig does. */
static bool replays_exist(const struct plan_case *of, struct err *err)
{
    unsigned missing = plan_replays(of->plan) & ~plan_possible_replays(of->model);
    for (int part = 0; part < REPLAY_PER_OP; part++)
        if (missing >> part & 1)
            return err_set(err, ERR_INFEASIBLE, "recompute",
                           "recompute=selective:%s names a module that this model lacks",
                           replay_names[part]);
    return true;
}

/* Megatron Core's TransformerConfig has the same condition: the scales of delayed scaling would be
 * updated twice. */
static bool replays_scale_once(const struct plan *plan, struct err *err)
{
    unsigned twice = plan_replays(plan) & (1u << REPLAY_NORM | 1u << REPLAY_EXPERT_ACTIVATION);
    return plan->precision != PRECISION_FP8_DELAYED || plan->replays == REPLAYS_PER_OP || !twice ||
           err_set(err, ERR_INFEASIBLE, "recompute",
                   "fp8 with delayed scaling cannot recompute layernorm or moe_act alone");
}

/* Stages can repeat different modules only if each stage's process has its own arguments.
 * DualPipe's stages s and p - 1 - s hold the same weights and are timed as one
 * (sim/plan/fold.h). */
static bool stages_have_sets(const struct plan *plan, struct err *err)
{
    int count = plan->num_stage_replays;
    if (count > 1 && plan_is_mirrored(plan))
        return err_set(err, ERR_INFEASIBLE, "recompute",
                       "schedule %s recomputes the same modules on all stages",
                       plan_schedule(plan));
    return count <= 1 || count == plan->pp ||
           err_set(err, ERR_INFEASIBLE, "recompute",
                   "recompute=selective: lists the modules of %d stages, but pp is %d", count,
                   plan->pp);
}

static bool recompute_fits(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    bool has_sets = plan->replays != 0 || plan_lists_parts(plan);
    if (plan->recompute == RECOMPUTE_SELECTIVE && has_sets &&
        (!replays_exist(of, err) || !replays_scale_once(plan, err) || !stages_have_sets(plan, err)))
        return false;
    if (plan->recompute == RECOMPUTE_BLOCK)
        return blocks_fit(of, err);
    int every = plan->recompute_every;
    if (plan->recompute != RECOMPUTE_EVERY || (every >= 1 && every <= most_layers(of)))
        return true;
    return err_set(err, ERR_INFEASIBLE, "recompute",
                   "recompute=full:%d needs chunks of %d or more layers, but they have %d", every,
                   every, most_layers(of));
}

/* The type must be fp32 or the data type of the matrix products. */
static bool type_is_consistent(const struct plan *plan, const char *token, int type,
                               const char *verb, struct err *err)
{
    int own = (int)precision_value_dtype(plan->precision);
    if (type == DTYPE_FP32 || type == own)
        return true;
    return err_set(err, ERR_INFEASIBLE, token, "gradients of %s are %s in fp32%s%s, not %s",
                   precision_names[plan->precision], verb, own == DTYPE_FP32 ? "" : " or ",
                   own == DTYPE_FP32 ? "" : dtype_names[own], dtype_names[type]);
}

static bool precision_is_consistent(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    return type_is_consistent(plan, "grad", plan->gradient_dtype, "kept", err) &&
           type_is_consistent(plan, "reduce", plan->reduce_dtype, "reduced", err);
}

static bool overlaps(const struct plan *plan, enum plan_overlap overlap)
{
    return plan->overlaps >> overlap & 1;
}

static bool has_pairs(const struct plan *plan)
{
    const struct generator *generator = generator_find(plan_schedule(plan));
    return generator && generator->pairs;
}

/* Names a condition of overlap=ep that the plan does not meet; NULL if it meets all. The conditions
 * are Megatron Core's (transformer_config.py, overlap_moe_expert_parallel_comm). Two microbatches
 * share the GPU, so recomputed parts must not exchange experts' rows, and a pipeline needs several
 * chunks per stage. If every layer is recomputed, its recompute runs before the pair (Megatron-LM
 * pull request 6429). */
static const char *expert_overlap_lacks(const struct plan *plan)
{
    bool replays_rows =
        plan->recompute == RECOMPUTE_SELECTIVE &&
        (plan->replays == REPLAYS_PER_OP || plan_replays(plan) >> REPLAY_EXPERTS & 1);
    bool is_unpaired = plan->pp > 1 && !has_pairs(plan);
    if (plan->ep == 1)
        return "ep over 1";
    if (is_unpaired && plan->vpp == 1)
        return "vpp over 1 with pp over 1";
    if (is_unpaired && *plan->schedule && strcmp(plan->schedule, "interleaved") != 0)
        return "schedule=interleaved";
    bool replays_all = plan->recompute == RECOMPUTE_FULL && !has_pairs(plan);
    if ((plan->recompute > RECOMPUTE_SELECTIVE && !replays_all) || replays_rows)
        return has_pairs(plan) ? "recompute that does not repeat the experts' all-to-alls"
                               : "recompute that does not repeat the experts' all-to-alls, or "
                                 "recompute of every layer";
    return NULL;
}

/* Megatron Core's conditions (transformer_config.py, moe_shared_expert_overlap). */
static bool shared_overlap_is_possible(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    const char *lacks =
        of->model->shared_ffn == 0        ? "a shared expert"
        : plan->ep == 1                   ? "ep over 1"
        : overlaps(plan, PLAN_OVERLAP_EP) ? "no overlap=ep"
        : plan->recompute == RECOMPUTE_SELECTIVE && plan_replays(plan) >> REPLAY_SHARED_EXPERT & 1
            ? "no recompute of the shared expert alone"
            : NULL;
    return !lacks || err_set(err, ERR_INFEASIBLE, "overlap", "overlap=shared needs %s", lacks);
}

static bool expert_overlap_is_possible(const struct plan *plan, struct err *err)
{
    const char *lacks = expert_overlap_lacks(plan);
    return !lacks || err_set(err, ERR_INFEASIBLE, "overlap", "overlap=ep needs %s", lacks);
}

/* Megatron-LM refuses the same: overlapped parameter gathers need the distributed optimizer and its
 * gradient buckets, and an interleaved schedule on two stages needs receives that are posted
 * early. */
static bool overlap_is_possible(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    if (!plan->overlaps_given)
        return true;
    if (overlaps(plan, PLAN_OVERLAP_PARAM) && plan->zero == 0)
        return err_set(err, ERR_INFEASIBLE, "overlap",
                       "overlap=param needs ZeRO stage 1 or more, not %d", plan->zero);
    if (overlaps(plan, PLAN_OVERLAP_PARAM) && !overlaps(plan, PLAN_OVERLAP_GRAD) && plan->zero < 3)
        return err_set(err, ERR_INFEASIBLE, "overlap",
                       "overlap=param needs overlap=grad at ZeRO stage %d", plan->zero);
    if (plan->vpp > 1 && plan->pp == 2 && !overlaps(plan, PLAN_OVERLAP_P2P))
        return err_set(err, ERR_INFEASIBLE, "overlap",
                       "vpp %d on pp 2 needs overlap=p2p, or pp of 3 or more", plan->vpp);
    if (overlaps(plan, PLAN_OVERLAP_SHARED) && !shared_overlap_is_possible(of, err))
        return false;
    return !overlaps(plan, PLAN_OVERLAP_EP) || expert_overlap_is_possible(plan, err);
}

static bool order_names_every_axis(const struct plan_case *of, struct err *err)
{
    unsigned seen = 0;
    for (int i = 0; i < num_axes; i++)
        if (of->plan->order[i] >= 0 && of->plan->order[i] < num_axes)
            seen |= 1u << of->plan->order[i];
    return seen == (1u << num_axes) - 1 ||
           err_set(err, ERR_INFEASIBLE, "order", "the rank order does not name every axis once");
}

/* The order of offload copies assumes that all layers keep the same number of bytes. */
static bool offload_is_possible(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    if (!plan_offloads(plan, OFFLOAD_ACTIVATIONS))
        return true;
    return (plan->recompute != RECOMPUTE_BLOCK && plan->recompute != RECOMPUTE_SHARE) ||
           err_set(err, ERR_INFEASIBLE, "offload",
                   "offload=activations needs layers that keep the same values, but recompute=%s "
                   "recomputes only some layers of a chunk; use selective, full or full:K",
                   recompute_names[plan->recompute]);
}

/* A step of Muon needs the whole gradient of a matrix (Megatron Core, layer_wise_optimizer.py). */
static bool optimizer_sees_matrices(const struct plan_case *of, struct err *err)
{
    const struct plan *plan = of->plan;
    if (!plan_matrices_apart(plan))
        return true;
    if (plan->zero > 1)
        return err_set(err, ERR_INFEASIBLE, "optimizer",
                       "optimizer=%s updates whole matrices, whose gradients zero%d would shard; "
                       "zero1 assigns whole matrices to ranks",
                       optimizer_names[plan->optimizer], plan->zero);
    return !plan_offloads(plan, OFFLOAD_OPTIMIZER) ||
           err_set(err, ERR_INFEASIBLE, "optimizer",
                   "optimizer=%s multiplies matrices, for which the host of offload=optimizer is "
                   "too slow",
                   optimizer_names[plan->optimizer]);
}

// clang-format off
static const struct plan_rule rules_of_degrees[] = {
    { "degrees", "Every degree is 1 or more.", degrees_are_positive },
    { "gpus", "tp x cp x pp x dp is the number of GPUs.", uses_all_gpus },
};
/* Rules about words that set no degree. The axes' own rules come between the table above and this
 * one. */
static const struct plan_rule rules_of_words[] = {
    { "interleave", "vpp over 1 needs pp over 1, and pp microbatches or more.",
      pipeline_can_interleave },
    { "schedule", "The schedule is known and can order this many stages, chunks and microbatches.",
      pipeline_has_schedule },
    { "zero", "ZeRO needs data ranks; shard=N divides dp x cp; reshard= needs a pipeline and "
              "ZeRO-2 or 3. Searches leave out ZeRO-2 and 3 with a pipeline if the stack does not "
              "support them.", data_can_shard },
    { "recompute", "Recompute names no more layers than a chunk has, and only modules that the "
                   "model has.", recompute_fits },
    { "precision", "Gradients are in fp32 or the type of the weights.",
      precision_is_consistent },
    { "overlap", "Every word of overlap= names a kind of communication that the plan has.", overlap_is_possible },
    { "order", "The rank order names every axis once.", order_names_every_axis },
    { "offload", "Activations are offloaded only if all layers of a chunk are recomputed alike.", offload_is_possible },
    { "optimizer", "muon updates whole matrices on the GPU: ZeRO at most 1, no offload.", optimizer_sees_matrices },
    { "exchange", "Exchanges other than all-reduce need two or more data ranks, no ZeRO and no cp.",
      data_can_exchange },
};
// clang-format on

struct rules {
    const struct plan_rule *at;
    int count;
};

/* Rules are numbered part by part: part 0 has the rules about degrees, parts 1 to num_axes those of
 * each axis, the last part those about other words. */
static struct rules part_of(int part)
{
    if (part == 0)
        return (struct rules){ rules_of_degrees, LENGTH(rules_of_degrees) };
    if (part <= num_axes)
        return (struct rules){ axes[part - 1]->rules, axes[part - 1]->num_rules };
    return (struct rules){ rules_of_words, LENGTH(rules_of_words) };
}

static int num_parts(void)
{
    return num_axes + 2;
}

int plan_num_rules(void)
{
    int count = 0;
    for (int part = 0; part < num_parts(); part++)
        count += part_of(part).count;
    return count;
}

const struct plan_rule *plan_rule_at(int number)
{
    int part = 0;
    for (; number >= part_of(part).count; part++)
        number -= part_of(part).count;
    return &part_of(part).at[number];
}

int plan_rule_number(const struct plan_rule *rule)
{
    int number = 0;
    for (int part = 0; part < num_parts(); part++) {
        struct rules rules = part_of(part);
        if (rule >= rules.at && rule < rules.at + rules.count)
            return number + (int)(rule - rules.at);
        number += rules.count;
    }
    assert(!"a rule is one of the table's");
    return -1;
}

bool plan_rule_reads_state(const struct plan_rule *rule)
{
    return rule->holds == data_can_shard || rule->holds == recompute_fits ||
           rule->holds == overlap_is_possible || rule->holds == offload_is_possible;
}

const struct plan_rule *plan_shard_rule(void)
{
    const struct plan_rule *rule = rules_of_words;
    while (rule->holds != data_can_shard)
        rule++;
    return rule;
}

/* The first part of a group; groups end where the next one begins. */
static int first_part_of(int group)
{
    const int firsts[] = { 0, 1 + AXIS_PIPELINE, 1 + num_axes, num_parts() };
    return firsts[group];
}

const struct plan_rule *plan_check_group(const struct plan *plan, const struct model *model,
                                         double global_batch, int num_gpus, enum rule_group group,
                                         struct err *err)
{
    struct plan_case of = {
        .plan = plan, .model = model, .global_batch = global_batch, .num_gpus = num_gpus
    };
    for (int part = first_part_of((int)group); part < first_part_of((int)group + 1); part++) {
        struct rules rules = part_of(part);
        for (int i = 0; i < rules.count; i++)
            if (!rules.at[i].holds(&of, err))
                return &rules.at[i];
    }
    return NULL;
}

const struct plan_rule *plan_check(const struct plan *plan, const struct model *model,
                                   double global_batch, int num_gpus, struct err *err)
{
    const struct plan_rule *broken = NULL;
    for (int group = 0; !broken && group < NUM_RULE_GROUPS; group++)
        broken = plan_check_group(plan, model, global_batch, num_gpus, (enum rule_group)group, err);
    return broken;
}
