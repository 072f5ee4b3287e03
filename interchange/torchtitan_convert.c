/* Converts a job to torchtitan's configuration and back, and checks torchtitan's rules. Its mesh is
 * [pp, dp_replicate, dp_shard, cp, tp], with experts over dp_shard, cp and tp
 * (torchtitan/distributed/parallel_dims.py). */
#include "base/length.h"
#include "base/text.h"
#include "interchange/titan.h"
#include "sim/plan/state_share.h"

#include <limits.h>
#include <string.h>

#define BIT(x) (1u << (x))

/* Functions of config_registry.py, the presets of the same models, and their parameters. */
static const struct titan_model models[] = {
    { "llama3", "llama3_8b", "8B", "llama3-8b", 8030261248 },
    { "llama3", "llama3_70b", "70B", "llama3-70b", 70553706496 },
    { "llama3", "llama3_405b", "405B", "llama3-405b", 405853388800 },
    { "deepseek_v3", "deepseek_v3_671b", "671B", "deepseek-v3", 671026419200 },
};

const struct titan_model *titan_model_of(const struct model *model)
{
    double parameters = model_parameters(model);
    for (int i = 0; i < LENGTH(models); i++)
        if (models[i].parameters == parameters)
            return &models[i];
    return NULL;
}

static const struct titan_model *model_by_name(const struct titan_args *from)
{
    for (int i = 0; i < LENGTH(models); i++) {
        const struct titan_model *model = &models[i];
        if (from->base && strcmp(from->base, model->function) == 0)
            return model;
        if (from->model && from->flavor && strcmp(from->model, model->module) == 0 &&
            strcmp(from->flavor, model->flavor) == 0)
            return model;
    }
    return NULL;
}

/* --- schedules and chunks -------------------------------------------------------------------- */

static const struct {
    const char *ours, *theirs;
} schedules[] = { { "1f1b", "1F1B" }, { "interleaved", "Interleaved1F1B" }, { "gpipe", "GPipe" } };

static const char *their_schedule(const struct plan *plan)
{
    for (int i = 0; i < LENGTH(schedules); i++)
        if (strcmp(schedules[i].ours, plan_schedule(plan)) == 0)
            return schedules[i].theirs;
    return NULL;
}

/* Writes the modules of each chunk: [["tok_embeddings", "layers.0"], ["layers.1", "norm",
 * "output"]]. */
static const char *write_parts(const struct plan *plan, struct arena *arena)
{
    struct text out = { 0 };
    int layer = 0;
    for (int i = 0; i < plan->num_chunk_layers; i++) {
        const char *separator = "";
        text_add(&out, "%s[", i ? ", " : "[");
        if (i == 0) {
            text_add(&out, "\"tok_embeddings\"");
            separator = ", ";
        }
        for (int k = 0; k < plan->chunk_layers[i]; k++) {
            text_add(&out, "%s\"layers.%d\"", separator, layer++);
            separator = ", ";
        }
        if (i == plan->num_chunk_layers - 1)
            text_add(&out, "%s\"norm\", \"output\"", separator);
        text_add(&out, "]");
    }
    text_add(&out, "]");
    return text_keep(&out, arena);
}

static bool read_parts(const char *text, struct job *job, struct arena *arena, struct err *err)
{
    int count = -1, *layers = ARENA_ARRAY(arena, int, strlen(text));
    for (const char *at = text; *at; at++) {
        if (*at == '[' && ++count < 0)
            break;
        if (count > 0 && strncmp(at, "layers.", 7) == 0)
            layers[count - 1]++;
    }
    if (count < 1 || count % job->plan.pp != 0)
        return err_set(err, ERR_INPUT, "parallelism.module_fqns_per_model_part",
                       "expected one list per chunk, so a multiple of %d lists, found %d",
                       job->plan.pp, count < 0 ? 0 : count);
    job->plan.vpp = count / job->plan.pp;
    job_set_chunks(job, layers, count);
    return true;
}

/* torchtitan counts the embedding as first_less layers and the head as last_less layers, and gives
 * the remainder of the division to the first chunks (generate_llm_fqn_per_model_part). If there are
 * more chunks than layers, the division stays even, which a rule rejects. */
static void read_inferred(const struct titan_args *from, struct job *job, struct arena *arena)
{
    int total = job->model.layers + from->first_less + from->last_less;
    if (job->plan.pp > total / job->plan.vpp)
        return;
    int count = job->plan.pp * job->plan.vpp;
    int *layers = ARENA_ARRAY(arena, int, (size_t)count);
    for (int i = 0; i < count; i++)
        layers[i] = total / count + (i < total % count);
    layers[0] -= from->first_less;
    layers[count - 1] -= from->last_less;
    job_set_chunks(job, layers, count);
}

static bool read_chunks(const struct titan_args *from, struct job *job, struct arena *arena,
                        struct err *err)
{
    struct plan *plan = &job->plan;
    if (plan->pp < 2)
        return true;
    for (int i = 0; i < LENGTH(schedules); i++)
        if (from->schedule && strcmp(from->schedule, schedules[i].theirs) == 0)
            plan_set_schedule(plan, i == 2 ? schedules[i].ours : "");
    bool is_looped = from->schedule && strcmp(from->schedule, "Interleaved1F1B") == 0;
    if (from->parts)
        return read_parts(from->parts, job, arena, err);
    int total = job->model.layers + from->first_less + from->last_less;
    plan->vpp = is_looped ? 2 : 1; /* torchtitan's default */
    if (from->layers_per_stage > 0)
        plan->vpp = placement_rounds_of(
            (total + from->layers_per_stage - 1) / from->layers_per_stage, plan->pp);
    plan->vpp = plan->vpp > 0 ? plan->vpp : 1;
    read_inferred(from, job, arena);
    return true;
}

/* --- jobs ------------------------------------------------------------------------------------ */

static int tokens_of(double sequences, int seq)
{
    double tokens = sequences * seq;
    return tokens <= INT_MAX ? (int)tokens : 0;
}

static void write_state(const struct plan *plan, struct titan_args *to)
{
    int shards = plan_shards(plan) / plan->cp;
    to->replicate = plan_cuts(plan, STATE_OPTIMIZER) && shards > 0 ? plan->dp / shards : plan->dp;
    to->shard = plan_cuts(plan, STATE_OPTIMIZER) && shards > 0 ? shards : 1;
    if (plan_cuts(plan, STATE_OPTIMIZER))
        to->reshard = plan_cuts(plan, STATE_PARAMETERS) && plan_reshards_passes(plan)
                          ? RESHARD_ALWAYS
                          : RESHARD_NEVER;
}

void titan_arguments(const struct job *job, void *args, struct arena *arena)
{
    static const int recomputes[] = {
        [RECOMPUTE_NONE] = TITAN_NONE,  [RECOMPUTE_SELECTIVE] = TITAN_SELECTIVE,
        [RECOMPUTE_FULL] = TITAN_FULL,  [RECOMPUTE_EVERY] = TITAN_FULL,
        [RECOMPUTE_BLOCK] = TITAN_FULL, [RECOMPUTE_SHARE] = TITAN_FULL,
    };
    struct titan_args *to = args;
    const struct plan *plan = &job->plan;
    const struct titan_model *model = titan_model_of(&job->model);
    *to = titan_defaults;
    to->base = model ? model->function : NULL;
    to->tp = plan->tp;
    to->sp = plan->tp == 1 || plan->sp;
    to->async_tp = job_overlaps(job) & BIT(PLAN_OVERLAP_TP);
    to->compile = to->async_tp;
    to->cp = plan->cp;
    to->ep = plan->ep;
    to->pp = plan->pp;
    write_state(plan, to);
    if (plan->pp > 1) {
        to->schedule = their_schedule(plan);
        to->first_less = to->last_less = 0;
        to->layers_per_stage = job->model.layers / plan_chunks(plan);
        to->pp_microbatches = plan_microbatches(plan, job->model.batch);
        to->no_graphs = true;
        if (plan->chunk_layers) {
            to->parts = write_parts(plan, arena);
            to->layers_per_stage = 0;
        }
    }
    to->microbatch_tokens = tokens_of(plan->microbatch, job->model.seq);
    to->step_tokens = tokens_of(job->model.batch, job->model.seq);
    to->context = job->model.seq;
    to->dtype = plan->precision == PRECISION_BF16_PURE;
    to->param_dtype = plan->precision != PRECISION_FP32;
    to->recompute = recomputes[plan->recompute];
}

static int sequence_of(const struct titan_args *from)
{
    return from->context > 0 ? from->context : from->seq;
}

static void read_batch(const struct titan_args *from, struct job *job)
{
    struct plan *plan = &job->plan;
    int seq = sequence_of(from);
    job->model.seq = seq;
    if (from->microbatch_tokens > 0) {
        plan->microbatch = from->microbatch_tokens / seq > 0 ? from->microbatch_tokens / seq : 1;
        double per_step = (double)plan->microbatch * from->pp_microbatches * plan->dp;
        job->model.batch = from->step_tokens > 0 ? (double)from->step_tokens / seq : per_step;
        return;
    }
    plan->microbatch = plan->pp > 1 ? from->pp_microbatch_size : from->local_batch;
    job->model.batch =
        from->global_batch > 0 ? from->global_batch : (double)from->local_batch * plan->dp;
}

static void read_state(const struct titan_args *from, struct job *job)
{
    struct plan *plan = &job->plan;
    int shards = from->shard > 0       ? from->shard
                 : from->replicate > 0 ? plan->dp / from->replicate
                                       : 1;
    bool never =
        from->reshard == RESHARD_NEVER || (from->reshard == RESHARD_DEFAULT && plan->pp > 1);
    if (shards * plan->cp > 1)
        plan->zero = never ? 2 : 3;
    if (plan_cuts(plan, STATE_PARAMETERS) && plan->pp > 1)
        plan->reshard = RESHARD_EACH_PASS;
    if (plan_cuts(plan, STATE_OPTIMIZER) && shards > 0 && shards < plan->dp)
        plan->shard = shards * plan->cp;
}

static void read_recompute(const struct titan_args *from, struct plan *plan)
{
    int recompute = from->recompute != TITAN_UNSET ? from->recompute : from->mode;
    if (recompute == TITAN_UNSET) /* default of both releases */
        recompute = TITAN_SELECTIVE;
    if (recompute == TITAN_FULL)
        plan->recompute = RECOMPUTE_FULL;
    if (recompute == TITAN_SELECTIVE) {
        plan->recompute = RECOMPUTE_SELECTIVE;
        plan->replays = REPLAYS_PER_OP;
    }
}

static void read_precision(const struct titan_args *from, struct plan *plan)
{
    bool narrow = from->converters && strstr(from->converters, "float8");
    plan->precision = narrow                   ? PRECISION_FP8_CURRENT
                      : from->dtype == 1       ? PRECISION_BF16_PURE
                      : from->param_dtype == 1 ? PRECISION_BF16
                                               : PRECISION_FP32;
    if (plan->precision == PRECISION_BF16_PURE)
        plan->gradient_dtype = plan->reduce_dtype = DTYPE_BF16;
}

bool titan_job(const void *args, struct job *job, struct arena *arena, struct err *err)
{
    const struct titan_args *from = args;
    const struct titan_model *known = model_by_name(from);
    struct plan *plan = &job->plan;
    if (job->model.layers == 0 && !known)
        return err_set(err, ERR_INPUT, from->flavor ? "model.flavor" : "model.name",
                       "the model is not among the known models; give it with --model");
    if (job->model.layers == 0 && !model_load(known->preset, &job->model, err))
        return false;
    if (from->tp < 1 || from->pp < 1 || from->cp < 1 || from->ep < 1)
        return err_set(err, ERR_INPUT, "parallelism", "expected degrees of 1 or more");
    if (sequence_of(from) < 1)
        return err_set(err, ERR_INPUT, "training.seq_len", "expected 1 or more, found %d",
                       sequence_of(from));
    plan->tp = from->tp;
    plan->pp = from->pp;
    plan->cp = from->cp;
    plan->ep = from->ep;
    plan->etp = job->model.experts > 0 && from->ep == 1 ? from->tp : 1;
    plan->sp = from->sp && from->tp > 1;
    plan->dp = job_data_ranks(job);
    if (plan->cp > 1)
        plan->context_comm = from->rotate == 0 ? CONTEXT_COMM_ALL_GATHER : CONTEXT_COMM_P2P;
    if (!read_chunks(from, job, arena, err))
        return false;
    read_batch(from, job);
    read_state(from, job);
    read_recompute(from, plan);
    read_precision(from, plan);
    unsigned tp = BIT(PLAN_OVERLAP_TP);
    job_set_overlaps(job, (job->usual_overlaps & ~tp) | (from->async_tp ? tp : 0));
    return true;
}

/* --- rules ----------------------------------------------------------------------------------- */

static bool model_is_registered(const struct rule_case *of, struct err *err)
{
    const struct titan_args *a = of->args;
    return titan_model_of(&of->job->model) || model_by_name(a) ||
           BROKEN("--model",
                  "%s is not in torchtitan's registry (8B, 70B and 405B of llama3, 671B "
                  "of deepseek_v3)",
                  of->job->model.name);
}

static bool schedule_exists(const struct rule_case *of, struct err *err)
{
    return their_schedule(&of->job->plan) ||
           BROKEN("schedule", "%s is none of 1f1b, interleaved and gpipe",
                  plan_schedule(&of->job->plan));
}

static bool plan_is_plain(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    unsigned apart = job_overlaps(of->job) ^ of->job->usual_overlaps;
    if (!job_is_plain(of->job, err))
        return false;
    if (plan->optimizer != OPTIMIZER_ADAM)
        return BROKEN("optimizer", "the only optimizer is AdamW");
    if (plan->offloads)
        return BROKEN("offload", "parameters, gradients and optimizer states can be offloaded "
                                 "only together");
    if (plan->attention != PLAN_ATTENTION_DEFAULT)
        return BROKEN("attn", "the kind of attention is set by torchtitan's registry");
    return !plan->overlaps_given || (apart & ~BIT(PLAN_OVERLAP_TP)) == 0 ||
           BROKEN("overlap", "FSDP's overlap is fixed; only overlap=tp can be set");
}

static bool precision_exists(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    bool pure = plan->precision == PRECISION_BF16_PURE;
    if (!pure && plan->precision != PRECISION_BF16 && plan->precision != PRECISION_FP32)
        return BROKEN("dtype", "the export does not support dtype=%s",
                      precision_names[plan->precision]);
    int type = pure ? DTYPE_BF16 : DTYPE_FP32;
    return (plan->gradient_dtype == type && plan->reduce_dtype == type) ||
           BROKEN("grad", "torchtitan reduces gradients in %s", dtype_names[type]);
}

static bool recompute_exists(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    bool per_op = plan->recompute == RECOMPUTE_SELECTIVE && plan_replays(plan) == REPLAYS_PER_OP;
    return plan->recompute == RECOMPUTE_NONE || plan->recompute == RECOMPUTE_FULL || per_op ||
           BROKEN("recompute", "torchtitan has only recompute=none, full and op-selective");
}

static bool state_is_sharded(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    if (plan_cuts(plan, STATE_OPTIMIZER) && !plan_cuts(plan, STATE_GRADIENTS))
        return BROKEN("zero", "zero1 shards only optimizer states, but FSDP shards gradients too");
    if (plan->reshard == RESHARD_EACH_GRADIENT)
        return BROKEN("reshard", "PyTorch's pipelines reduce gradients only once per step");
    if (plan_cuts(plan, STATE_PARAMETERS) && !plan_reshards_passes(plan))
        return BROKEN("reshard",
                      "torchtitan keeps parameters gathered for a whole step only with zero2");
    if (!plan_cuts(plan, STATE_OPTIMIZER) && plan->cp > 1)
        return BROKEN(
            "zero", "zero0 is not possible with cp %d, because state is sharded over context ranks",
            plan->cp);
    return !plan_cuts(plan, STATE_OPTIMIZER) || plan->shard == 0 || plan->shard % plan->cp == 0 ||
           BROKEN("shard", "shard=%d is not a multiple of cp %d", plan->shard, plan->cp);
}

static bool mesh_fills_world(const struct rule_case *of, struct err *err)
{
    const struct titan_args *a = of->args;
    long long ways =
        (long long)a->replicate * (a->shard > 0 ? a->shard : 1) * a->cp * a->tp * a->pp;
    int gpus = of->job->num_gpus;
    return gpus == 0 || (ways > 0 && (a->shard > 0 ? ways == gpus : gpus % ways == 0)) ||
           BROKEN("parallelism.data_parallel_shard_degree",
                  "replicate %d x shard %d x cp %d x tp %d x pp %d is not %d GPUs", a->replicate,
                  a->shard, a->cp, a->tp, a->pp, gpus);
}

static bool experts_divide_mesh(const struct rule_case *of, struct err *err)
{
    const struct titan_args *a = of->args;
    const struct plan *plan = &of->job->plan;
    int shard = a->shard > 0 ? a->shard : a->replicate > 0 ? plan->dp / a->replicate : 1;
    if (a->ep > 1 && (shard * a->cp * a->tp) % a->ep != 0)
        return BROKEN("parallelism.expert_parallel_degree",
                      "%d does not divide shard %d x cp %d x tp %d", a->ep, shard, a->cp, a->tp);
    int etp = a->ep > 1 ? 1 : a->tp;
    return of->job->model.experts == 0 || plan->etp == etp ||
           BROKEN("etp", "torchtitan splits experts over %d tensor ranks if ep is %d, not over %d",
                  etp, a->ep, plan->etp);
}

static bool context_is_gathered(const struct rule_case *of, struct err *err)
{
    const struct plan *plan = &of->job->plan;
    return plan->cp == 1 || plan->context_comm == CONTEXT_COMM_ALL_GATHER ||
           BROKEN("cp-comm", "context ranks gather keys and values, so the layout needs "
                             "cp-comm=all-gather");
}

static bool tokens_divide(const struct rule_case *of, struct err *err)
{
    static const char where[] = "training.num_tokens_per_train_step";
    const struct titan_args *a = of->args;
    long long parts = (a->sp ? a->tp : 1) * (a->cp > 1 ? 2LL * a->cp : 1);
    if (a->microbatch_tokens == 0)
        return a->step_tokens == 0 || BROKEN(where, "is more than %d tokens", INT_MAX);
    if (a->microbatch_tokens % parts != 0)
        return BROKEN("training.num_tokens_per_microbatch_per_dp_rank",
                      "%d is not a common multiple of tp and 2 cp, %lld", a->microbatch_tokens,
                      parts);
    long long step = (long long)a->microbatch_tokens * a->pp_microbatches * of->job->plan.dp;
    return a->step_tokens < 1 || step < 1 || a->step_tokens % step == 0 ||
           BROKEN(where, "%d is not a multiple of %lld", a->step_tokens, step);
}

static bool graphs_are_off(const struct rule_case *of, struct err *err)
{
    const struct titan_args *a = of->args;
    return a->pp == 1 || a->no_graphs || a->microbatch_tokens == 0 ||
           BROKEN("training.disable_cuda_graphs", "is not set, but pp is %d", a->pp);
}

static bool stages_fit(const struct rule_case *of, struct err *err)
{
    const struct titan_args *a = of->args;
    int total = of->job->model.layers + a->first_less + a->last_less;
    static const char where[] = "parallelism.pipeline_parallel_layers_per_stage";
    if (a->pp == 1)
        return true;
    int stages = a->layers_per_stage > 0 ? (total + a->layers_per_stage - 1) / a->layers_per_stage
                                         : a->pp * of->job->plan.vpp;
    bool looped = a->schedule && strstr(a->schedule, "Interleaved");
    if (stages % a->pp != 0)
        return BROKEN(where, "%d stages do not divide over pp %d", stages, a->pp);
    if (looped != (stages / a->pp > 1))
        return BROKEN("parallelism.pipeline_parallel_schedule",
                      "%s cannot have %d stages on each rank", a->schedule, stages / a->pp);
    return a->layers_per_stage == 0 ||
           (a->first_less <= a->layers_per_stage && a->last_less <= a->layers_per_stage) ||
           BROKEN(where,
                  "a stage of %d layers is smaller than the layers that the embedding or the head "
                  "counts as",
                  a->layers_per_stage);
}

static bool async_is_compiled(const struct rule_case *of, struct err *err)
{
    const struct titan_args *a = of->args;
    return !a->async_tp || a->compile ||
           BROKEN("parallelism.enable_async_tensor_parallel", "needs compile.enable");
}

static void mend_schedule(struct job *job, struct arena *arena)
{
    (void)arena;
    plan_set_schedule(&job->plan, "");
}

static void mend_plain(struct job *job, struct arena *arena)
{
    (void)arena;
    job_make_plain(job);
    job->plan.offloads = 0;
}

static void mend_precision(struct job *job, struct arena *arena)
{
    struct plan *plan = &job->plan;
    (void)arena;
    if (plan->precision != PRECISION_FP32 && plan->precision != PRECISION_BF16_PURE)
        plan->precision = PRECISION_BF16;
    int type = plan->precision == PRECISION_BF16_PURE ? DTYPE_BF16 : DTYPE_FP32;
    plan->gradient_dtype = plan->reduce_dtype = type;
}

static void mend_recompute(struct job *job, struct arena *arena)
{
    struct plan *plan = &job->plan;
    bool some = plan->recompute == RECOMPUTE_SELECTIVE;
    (void)arena;
    plan_set_recompute(plan, some ? RECOMPUTE_SELECTIVE : RECOMPUTE_FULL);
    plan->replays = some ? REPLAYS_PER_OP : 0;
}

/* Changes ZeRO to shard gradients too if there are several data ranks; otherwise to no sharding. */
static void mend_state(struct job *job, struct arena *arena)
{
    struct plan *plan = &job->plan;
    (void)arena;
    plan->zero = plan->dp * plan->cp > 1 ? 2 : 0;
    plan->reshard = RESHARD_EACH_STEP;
    plan->shard = 0;
}

static void mend_etp(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.etp = job->plan.ep > 1 ? 1 : job->plan.tp;
}

static void mend_context(struct job *job, struct arena *arena)
{
    (void)arena;
    job->plan.context_comm = CONTEXT_COMM_ALL_GATHER;
}

// clang-format off
const struct target_rule titan_rules[] = {
    { "TX1", "The model is in torchtitan's registry.", "register the model, or choose one that is",
      model_is_registered, NULL },
    { "TX2", "The schedule is 1F1B, Interleaved1F1B or GPipe.", "omit schedule=", schedule_exists, mend_schedule },
    { "TX3", "The rank order, exchange, optimizer, attention and overlap are those of torchtitan.",
      "omit this word of the layout", plan_is_plain, mend_plain },
    { "TX4", "The precision is fp32, bf16 or bf16-pure, and gradients are reduced in the type "
             "that torchtitan uses for it.",
      "take bf16", precision_exists, mend_precision },
    { "TX5", "Recompute is none, full, or per op.", "use recompute=full or op-selective", recompute_exists, mend_recompute },
    { "TX6", "Optimizer states are replicated, or sharded together with the gradients; shards "
             "span whole groups of context ranks.",
      "use zero2 or zero3", state_is_sharded, mend_state },
    { "TX7", "Context ranks gather keys and values.", "use cp-comm=all-gather", context_is_gathered, mend_context },
    { "T1", "replicate x shard x cp x tp x pp is the number of GPUs.", "set data_parallel_shard_degree to -1", mesh_fills_world, NULL },
    { "T2", "ep divides shard x cp x tp, and experts are not split over tensor ranks.", "choose ep among the divisors", experts_divide_mesh, mend_etp },
    { "T3", "The tokens of a microbatch are a multiple of tp and of 2 cp; the tokens of a step "
            "are a multiple of the tokens of a microbatch on all data ranks.",
      "round num_tokens_per_train_step", tokens_divide, NULL },
    { "T4", "With a pipeline CUDA graphs are off.", "set training.disable_cuda_graphs", graphs_are_off, NULL },
    { "T5", "pp divides the stages: one stage per rank, or two or more with a looped schedule.",
      "choose pipeline_parallel_layers_per_stage so that pp divides the stages", stages_fit, NULL },
    { "T6", "Asynchronous tensor parallelism needs compile.", "set compile.enable", async_is_compiled, NULL },
};
// clang-format on
const int num_titan_rules = LENGTH(titan_rules);
