/* Compares op lists (the ops of a layer) and memory with traces of Megatron-Core and torchtitan. A
 * trace has one step of one rank and was made without a GPU (tests/fixtures/traces has the
 * scripts). Lists and traces must be equal, or the difference must have a name and a size that
 * follows from its cause. */
#include "models/blocks.h"
#include "sim/memory/held.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include "base/json.h"
#include "base/statistics.h"
#include "sim/memory/memory.h"
#include "sim/plan/pass.h"
#include "sim/plan/state_share.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- tables ---------------------------------------------------------------------------------- */

/* One entry is a kind of collective, product or fused attention, and its number of runs. */
enum { MAX_NUMBERS = 4, MAX_ROWS = 128, MAX_TEXT = 32 };
struct row {
    char what[MAX_TEXT]; /* the name is a collective's kind and group, "product", "attention" or
                            "attention backward" */
    double numbers[MAX_NUMBERS];
    double count;
};
struct table {
    struct row rows[MAX_ROWS];
    int count;
};

static struct row *row_of(struct table *table, const char *what, const double *numbers)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].what, what) == 0 &&
            memcmp(table->rows[i].numbers, numbers, sizeof table->rows[i].numbers) == 0)
            return &table->rows[i];
    ck_assert_int_lt(table->count, MAX_ROWS);
    struct row *row = &table->rows[table->count++];
    *row = (struct row){ .count = 0 };
    snprintf(row->what, sizeof row->what, "%s", what);
    memcpy(row->numbers, numbers, sizeof row->numbers);
    return row;
}

static void add_row(struct table *table, const char *what, const double numbers[MAX_NUMBERS],
                    double count)
{
    row_of(table, what, numbers)->count += count;
}

/* Adds a product. A product and its transpose count as the same. */
static void add_product(struct table *table, double batch, double m, double n, double k,
                        double count)
{
    add_row(table, "product", (double[]){ batch, fmin(m, n), fmax(m, n), k }, count);
}

static void add_collective(struct table *table, const char *kind, const char *group, double bytes,
                           double count)
{
    char what[MAX_TEXT];
    snprintf(what, sizeof what, "%s %s", kind, group);
    add_row(table, what, (double[MAX_NUMBERS]){ bytes }, count);
}

/* --- the case -------------------------------------------------------------------------------- */

static struct {
    const char *name;
    struct arena arena;
    struct system system;
    struct model model;
    struct plan plan;
    struct pieces pieces;
    struct layer_dims dims;
    struct holding held;
    int stage, microbatches;
    bool keeps_apart; /* in this trace queries, keys and values are separate products, and so are
                       * the two halves of a gated feed-forward */
    struct table traced, ours;
    double launches[2]; /* number of kernels that our forward launches, and our backward with
                           recompute */
} now;

/* Makes a model in which all blocks are of this kind, and computes a rank's share of it. */
static struct model kind_model(int kind)
{
    return model_of_kind(&now.model, kind);
}

static struct layer_dims kind_dims(int kind)
{
    struct model of = kind_model(kind);
    return local_dims(rank_share_of(&now.plan), &of, of.seq);
}

static int blocks_with_experts(void)
{
    int blocks = 0;
    for (int kind = 0; kind < model_num_kinds(&now.model); kind++)
        blocks += kind_model(kind).experts > 0 ? now.held.count[kind] : 0;
    return blocks + (model_of_later(&now.model).experts > 0 ? now.held.count[PIECE_LATER] : 0);
}

static bool fuses(enum fusion fusion)
{
    return (now.system.stack.fusions >> fusion & 1) != 0;
}

static double bytes_of(double values)
{
    return values * dtype_bytes(DTYPE_BF16);
}

/* Returns the bytes of the residual stream for all tokens of a microbatch. */
static double stream_bytes(void)
{
    return bytes_of(now.dims.tokens * now.dims.hidden);
}

/* --- our lists ------------------------------------------------------------------------------- */

/* Adds the all-reduces of the loss: the maximum; then the sum of exponentials and the target's
 * logit, separately or together. */
static void add_loss_reduce(const struct op *op, double times)
{
    double row_bytes = op->comm_bytes / 3;
    add_collective(&now.ours, "all_reduce", "tp", row_bytes, op->kernels == 2 ? times : 3 * times);
    if (op->kernels == 2)
        add_collective(&now.ours, "all_reduce", "tp", 2 * row_bytes, times);
}

/* Adds a product, split into those of the separate matrices that the trace has. Our lists join
 * these matrices along the output's columns, the inner dimension of the input gradient, or the rows
 * of the weight gradient. */
static void add_gemm(const struct op *op, double times)
{
    double sum = op->matrices[0] + op->matrices[1] + op->matrices[2];
    bool is_grouped = op->batch > 1;
    bool is_input = op->pass == PASS_BACKWARD_INPUT, is_weight = op->pass == PASS_BACKWARD_WEIGHT;
    double width = is_input ? op->k : is_weight ? op->m : op->n;
    if (!now.keeps_apart || sum != width ||
        is_grouped) { /* products of experts have one line each */
        add_product(&now.ours, 1, op->m, op->n, op->k, times * op->batch);
        return;
    }
    for (int i = 0; i < MAX_MATRICES && op->matrices[i] > 0; i++)
        add_product(&now.ours, op->batch, is_weight ? op->matrices[i] : op->m,
                    is_input || is_weight ? op->n : op->matrices[i],
                    is_input ? op->matrices[i] : op->k, times);
}

static bool replays_experts(void)
{
    return now.plan.recompute == RECOMPUTE_SELECTIVE &&
           (plan_replays(&now.plan) >> REPLAY_EXPERTS & 1) != 0;
}

static const char *group_of(const struct op *op)
{
    if (op->spans_experts)
        return "etp-ep";
    if (op->stream == STREAM_EXPERT)
        return op->kind == OP_ALL_TO_ALL ? "ep" : "etp";
    return op->stream == STREAM_CONTEXT ? "cp" : "tp";
}

static void add_op(const struct op *op, double times)
{
    const char *group = group_of(op);
    if (strcmp(op->name, "loss_reduce") == 0)
        add_loss_reduce(op, times);
    else if (op_is_collective(op->kind))
        add_collective(&now.ours, op_kind_infos[op->kind].text, group, op->comm_bytes, times);
    else if (op->kind == OP_GEMM)
        add_gemm(op, times);
    else if (op->kind == OP_SCORES || op->kind == OP_ATTENTION_VALUES)
        add_product(&now.ours, op->batch, op->m, op->n, op->k, times);
    else if (op->kind == OP_FLASH_ATTENTION)
        add_row(&now.ours, op->pass == PASS_FORWARD ? "attention" : "attention backward",
                (double[]){ op->batch, op->m, op->n, op->k }, times);
}

enum { FORWARD_LAUNCHES, BACKWARD_LAUNCHES };

static void add_ops(struct ops ops, double times, int launches)
{
    for (int i = 0; i < ops.count && times > 0; i++) {
        add_op(&ops.at[i], times);
        now.launches[launches] += times * ops.at[i].kernels;
    }
}

static void add_lists(struct local_ops lists, double times)
{
    add_ops(lists.forward, times, FORWARD_LAUNCHES);
    add_ops(lists.backward, times, BACKWARD_LAUNCHES);
}

/* Parameters are gathered in the plan's type and gradients reduced in another, a piece at a time,
 * by the steps of a pass. */
static void list_sharding(void)
{
    struct pass_chunk chunk = pass_chunk_of(&now.plan, &now.model, now.stage, 1);
    double gathers[NUM_PIECES] = { 0 }, reductions[NUM_PIECES] = { 0 };
    for (int i = 0; i < 2 * now.microbatches; i++) {
        struct pass_steps steps =
            pass_steps(&chunk, i % 2 == 0 ? INSTR_FORWARD : INSTR_BACKWARD, &now.arena);
        for (int s = 0; s < steps.count; s++) {
            int piece = steps.at[s].index / 2;
            bool is_end = piece == 0 || piece == pass_pieces(&chunk) - 1;
            bool is_vocabulary = steps.at[s].index % 2 == 1;
            int kind = !is_end ? 0 : piece == 0 ? PIECE_EMBEDDING : PIECE_HEAD;
            if (is_end != is_vocabulary)
                continue; /* the head's norm is in one FSDP unit with its matrix */
            gathers[kind] += steps.at[s].op == STEP_GATHER;
            reductions[kind] += steps.at[s].op == STEP_REDUCE;
        }
    }
    for (int kind = 0; kind < NUM_PIECES; kind++) {
        double parameters = now.pieces.at[kind].parameters;
        add_collective(&now.ours, "all_gather", "dp", bytes_of(parameters), gathers[kind]);
        add_collective(&now.ours, "reduce_scatter", "dp",
                       parameters * dtype_bytes((enum dtype)now.plan.reduce_dtype),
                       reductions[kind]);
    }
}

static void list_later(struct rank_share share, const struct layer_options *options, double times)
{
    struct local_ops module =
        local_later(share, &now.model, now.model.seq, options, false, &now.arena);
    add_lists(module, times);
    if (plan_recomputes_later(&now.plan))
        add_ops(module.forward, times, BACKWARD_LAUNCHES);
    if (now.plan.recompute == RECOMPUTE_SELECTIVE)
        add_ops(ops_replay(&module.forward, plan_replays(&now.plan), false, &now.arena).ops, times,
                BACKWARD_LAUNCHES);
}

static void list_ours(void)
{
    const struct plan *plan = &now.plan;
    struct rank_share share = rank_share_of(plan);
    struct layer_options options = plan_layer_options(plan, &now.system);
    double seq = now.model.seq;
    double times = now.microbatches;
    for (int kind = 0; kind < model_num_kinds(&now.model); kind++) {
        struct model of = kind_model(kind);
        struct local_ops layer = local_layer(share, &of, seq, &options, false, &now.arena);
        add_lists(layer, times * now.held.count[kind]);
        add_ops(layer.forward, times * now.held.recomputed[kind], BACKWARD_LAUNCHES);
        if (plan->recompute == RECOMPUTE_SELECTIVE)
            add_ops(ops_replay(&layer.forward, plan_replays(plan), false, &now.arena).ops,
                    times * now.held.count[kind], BACKWARD_LAUNCHES);
    }
    double later = times * now.held.count[PIECE_LATER];
    add_lists(local_embedding(share, &now.model, seq, &options, false, &now.arena),
              times * now.held.count[PIECE_EMBEDDING] + later);
    add_lists(local_head(share, &now.model, seq, &options, false, &now.arena),
              times * now.held.count[PIECE_HEAD] + later);
    if (later > 0)
        list_later(share, &options, later);
    if (plan_gathers(plan))
        list_sharding();
}

/* --- the trace ------------------------------------------------------------------------------- */

static double number_at(const json_t *array, size_t i)
{
    return json_number_value(json_array_get(array, i));
}

static const char *text_at(const json_t *array, size_t i)
{
    return json_string_value(json_array_get(array, i));
}

static double number_of(const json_t *of, const char *key)
{
    return json_number_value(json_object_get(of, key));
}

static void read_tables(const json_t *of)
{
    size_t i;
    json_t *row;
    json_array_foreach (json_object_get(of, "collectives"), i, row) {
        add_collective(&now.traced, text_at(row, 0), text_at(row, 1), number_at(row, 2),
                       number_at(row, 3));
    }
    json_array_foreach (json_object_get(of, "products"), i, row) {
        add_product(&now.traced, number_at(row, 0), number_at(row, 1), number_at(row, 2),
                    number_at(row, 3), number_at(row, 4));
    }
    json_array_foreach (json_object_get(of, "attention"), i, row) {
        double sizes[] = { number_at(row, 0), number_at(row, 1), number_at(row, 2),
                           number_at(row, 3) };
        add_row(&now.traced, "attention", sizes, number_at(row, 4));
        add_row(&now.traced, "attention backward", sizes, number_at(row, 5));
    }
}

static bool has_word(const json_t *words, const char *word)
{
    size_t i;
    json_t *of;
    json_array_foreach (words, i, of) {
        if (strcmp(json_string_value(of), word) == 0)
            return true;
    }
    return false;
}

/* Enables in our stack the fusions that the trace has. */
static void set_fusions(const json_t *fused)
{
    now.system.stack.fusions = 0;
    for (unsigned i = 0; i < NUM_FUSIONS; i++)
        if (has_word(fused, fusion_names[i]))
            now.system.stack.fusions |= 1u << i;
    now.plan.attention =
        has_word(fused, "attention") ? PLAN_ATTENTION_FLASH : PLAN_ATTENTION_UNFUSED;
}

static void load(const json_t *of, const char *stack)
{
    struct err err = { 0 };
    const char *layout = json_string_value(json_object_get(of, "plan"));
    memset(&now, 0, sizeof now);
    now.name = json_string_value(json_object_get(of, "name"));
    now.stage = (int)number_of(of, "stage");
    check_ok(model_read(json_object_get(of, "model"), &now.model, &err), &err);
    check_ok(plan_parse(layout, &now.arena, &now.plan, &err), &err);
    now.plan.dp = now.plan.dp > 0 ? now.plan.dp : 1;
    now.microbatches = (int)fmax(1, number_of(of, "microbatches"));
    now.keeps_apart = strncmp(stack, "torchtitan", 10) == 0;
    check_ok(system_load("dgx-h100", stack, plan_ranks(&now.plan), &now.system, &err), &err);
    now.system.stack.norms_in_products = false; /* traces have Megatron's own layers */
    set_fusions(json_object_get(of, "fused"));
    now.pieces = pieces_cost(&now.system, &now.model, &now.plan, &now.arena);
    now.dims = local_dims(rank_share_of(&now.plan), &now.model, now.model.seq);
    now.held = stage_holding(&now.plan, &now.model, now.stage);
    read_tables(of);
    list_ours();
}

static void release(void)
{
    system_release(&now.system);
    arena_release(&now.arena);
}

/* --- differences of lists -------------------------------------------------------------------- */

/* A known difference: GPTModel adds learned positions to all tokens: it all-reduces the embedding,
 * and each rank takes its share of the tokens afterwards (language_model_embedding.py,
 * reduce_scatter_embeddings). Our list reduce-scatters the embedding and adds positions to a rank's
 * share. */
static void explain_positions(void)
{
    if (now.model.positions != POSITION_LEARNED || !now.plan.sp || now.stage > 0)
        return;
    add_collective(&now.ours, "reduce_scatter", "tp", stream_bytes(), -1);
    add_collective(&now.ours, "all_reduce", "tp", stream_bytes(), 1);
}

/* A known difference: FSDP2 also gathers the embedding for the backward, which does not need it,
 * and keeps the weights of the last unit after the forward (parallelize.py, reshard_after_forward).
 */
static void explain_units(void)
{
    if (!plan_gathers(&now.plan))
        return;
    add_collective(&now.ours, "all_gather", "dp",
                   bytes_of(now.pieces.at[PIECE_EMBEDDING].parameters), now.microbatches);
    add_collective(&now.ours, "all_gather", "dp", bytes_of(now.pieces.at[PIECE_HEAD].parameters),
                   -now.microbatches);
}

/* A known difference: torchtitan sums the gradients of norms over the tensor ranks in each
 * backward, in fp32; our lists, like Megatron, sum them once at the end of the step
 * (sim/engine/tail.c). */
static void explain_norms(void)
{
    if (now.keeps_apart && now.plan.tp > 1)
        add_collective(&now.ours, "all_reduce", "tp", 4.0 * now.dims.hidden,
                       now.microbatches * (2 * now.held.count[0] + now.held.count[PIECE_HEAD]));
}

/* Without a compiler, recompute by op repeats the attention's projection, whose result nobody reads
 * because its sum over the tensor ranks is kept. */
static void explain_projection(void)
{
    bool is_per_op = now.plan.recompute == RECOMPUTE_SELECTIVE &&
                     plan_replays(&now.plan) == REPLAYS_PER_OP && now.plan.tp > 1;
    if (is_per_op)
        add_product(&now.ours, 1, now.dims.tokens, now.dims.hidden,
                    now.dims.heads * now.dims.head_dim, now.held.count[0]);
}

/* Megatron omits the auxiliary loss in a forward that will be recomputed, as it runs without
 * gradients (router.py, torch.is_grad_enabled), so only the recomputation counts the router's
 * choices. */
static void explain_router_counts(void)
{
    bool drops = now.plan.recompute == RECOMPUTE_FULL || replays_experts();
    if (drops && now.plan.tp > 1 && blocks_with_experts() > 0)
        add_collective(&now.ours, "all_reduce", "tp", 8.0 * now.model.experts,
                       -now.microbatches * blocks_with_experts());
}

static void check_row(const struct row *row, struct table *other, const char *whose)
{
    double count = row_of(other, row->what, row->numbers)->count;
    ck_assert_msg(count == row->count, "%s: %s %g %g %g %g runs %g times, expected from %s %g",
                  now.name, row->what, row->numbers[0], row->numbers[1], row->numbers[2],
                  row->numbers[3], row->count, whose, count);
}

static void check_lists(void)
{
    explain_positions();
    explain_units();
    explain_norms();
    explain_projection();
    explain_router_counts();
    for (int i = 0; i < now.traced.count; i++)
        check_row(&now.traced.rows[i], &now.ours, "ours");
    for (int i = 0; i < now.ours.count; i++)
        check_row(&now.ours.rows[i], &now.traced, "traced");
}

/* For a model with experts, our forward and backward launch as many kernels as Megatron-Core's
 * local layers do. For other models they launch fewer: Megatron's layers also copy queries, keys
 * and values, mask the ids that another tensor rank embeds, and widen the logits. */
static void check_launches(const json_t *of)
{
    const json_t *traced = json_object_get(of, "launches");
    double ratio = (now.launches[FORWARD_LAUNCHES] + now.launches[BACKWARD_LAUNCHES]) /
                   (number_at(traced, 0) + number_at(traced, 1));
    double least = now.model.experts > 0 ? 0.8 : 0.6;
    ck_assert_msg(ratio >= least && ratio <= 1.15, "%s: %g predicted launches per traced launch",
                  now.name, ratio);
}

/* --- differences of memory ------------------------------------------------------------------- */

/* Returns the number of blocks of a kind that keep their activations, i.e. are not recomputed. */
static double kept_layers(int kind)
{
    bool is_of_later = kind == model_kind_of(&now.model, now.model.layers - 1);
    double later =
        is_of_later && !plan_recomputes_later(&now.plan) ? now.held.count[PIECE_LATER] : 0;
    return now.held.count[kind] - now.held.recomputed[kind] + later;
}

static double sum_kept(double (*bytes)(int kind))
{
    double sum = 0;
    for (int kind = 0; kind < model_num_kinds(&now.model); kind++)
        sum += kept_layers(kind) * bytes(kind);
    return sum;
}

/* Megatron's own attention repeats keys and values for each query head (dot_product_attention.py).
 * Our stacks do not model this copy for grouped-query attention. */
static double repeated_keys_bytes(int kind)
{
    struct layer_dims dims = kind_dims(kind);
    bool is_kept = now.plan.attention != PLAN_ATTENTION_FLASH && !plan_replays_core(&now.plan);
    return is_kept ? bytes_of(2 * dims.tokens * (dims.heads - dims.kv_heads) * dims.head_dim) : 0;
}

/* Keys and values are slices of one product's output, and an op that keeps a slice keeps the whole
 * output. A checkpoint of the core keeps values as a slice, in addition to rotated queries and
 * keys. Norms of queries and keys keep keys as a slice, in addition to a copy of the queries,
 * unless there is one key head (attention.py). */
static double slices_bytes(int kind)
{
    struct layer_dims dims = kind_dims(kind);
    bool turns = now.model.positions == POSITION_ROTARY && now.model.kv_lora == 0;
    bool has_values = turns && plan_replays_core(&now.plan);
    bool has_keys = turns && now.model.qk_norm;
    double heads = has_values || dims.kv_heads > 1 ? dims.heads + dims.kv_heads : 1;
    return has_values || has_keys ? bytes_of(dims.tokens * heads * dims.head_dim) : 0;
}

/* Without a routing kernel, Megatron keeps the indices of chosen experts as 8-byte integers three
 * times (for the router weights, for the auxiliary loss and for the order of rows), and their
 * scores too (moe_utils.py). Our op list keeps 4-byte indices once. The scores of all experts are
 * kept once more if they are computed before the choice. */
static double routing_bytes(int kind)
{
    struct model of = kind_model(kind);
    struct layer_dims dims = kind_dims(kind);
    bool scores_first = of.score_bias || of.topk == 1;
    double bytes = of.topk * (3 * 8 + 4 - 4) + (scores_first ? 4 * of.experts : 0);
    return of.experts > 0 && !replays_experts() ? dims.norm_tokens * bytes : 0;
}

static double rotary_dim(void)
{
    return now.model.kv_lora > 0 ? now.model.qk_rope_dim : now.dims.head_dim;
}

/* Megatron's own layers keep the cosines and sines of rotary embedding in each layer, for queries
 * and for keys (rope_utils.py). */
static double rotary_tables_bytes(void)
{
    bool has_tables = now.model.positions == POSITION_ROTARY && !fuses(FUSION_ROTARY);
    return has_tables ? now.held.layers * bytes_of(4.0 * now.model.seq * rotary_dim()) : 0;
}

/* Megatron keeps the angles of all positions in fp32, once per rank (rotary_pos_embedding.py).
 * Latent attention's kernels have separate tables, which are kept between steps. */
static double rotary_angles_bytes(void)
{
    bool has_angles = now.model.positions == POSITION_ROTARY && now.model.kv_lora == 0;
    return has_angles ? 4.0 * now.model.seq * rotary_dim() : 0;
}

/* Megatron's own gate adds an offset, usually 0, to its linear half, and keeps the sum (mlp.py,
 * glu_linear_offset). */
static double gate_offset_bytes(void)
{
    bool has_sum = model_is_gated(&now.model) && !fuses(FUSION_BIAS_GELU);
    return has_sum ? now.held.count[0] * bytes_of(now.dims.tokens * now.dims.ffn) : 0;
}

/* Megatron's own linear layers gather tokens into a permanent buffer, which also holds attention's
 * scores (utils.py, GlobalMemoryBuffer). Transformer Engine's layers do not. */
static double buffer_bytes(void)
{
    if (now.plan.attention == PLAN_ATTENTION_FLASH)
        return 0;
    double scores = now.dims.batch * now.dims.heads * now.dims.seq * now.dims.kv_seq;
    return fmax(bytes_of(scores), now.plan.sp ? stream_bytes() : 0);
}

/* The backward of an fp32 softmax has its input and output gradients in fp32, 4 bytes each, and the
 * 16-bit probabilities are already freed. Our op list has both gradients and the probabilities in
 * 16 bits, which is 2 bytes less. This determines the peak where the attention core is
 * recomputed. */
static double softmax_gradient_bytes(void)
{
    bool has_peak = plan_replays_core(&now.plan) && !fuses(FUSION_SOFTMAX) &&
                    now.plan.attention != PLAN_ATTENTION_FLASH;
    return has_peak ? 2 * now.dims.batch * now.dims.heads * now.dims.seq * now.dims.kv_seq : 0;
}

/* Autograd sums the gradients of a tied embedding before it passes them on, so the head's gradient
 * waits for the embedding's. It does not wait if products accumulate into the main gradient. */
static double waiting_gradient_bytes(void)
{
    bool is_tied = now.model.tied && now.plan.pp == 1 && !fuses(FUSION_WGRAD_ACCUMULATE);
    return is_tied ? bytes_of(now.dims.vocab * now.dims.hidden) : 0;
}

static struct stage_memory memory_of(void)
{
    struct memory_input in = { .system = &now.system,
                               .model = &now.model,
                               .plan = &now.plan,
                               .pieces = &now.pieces,
                               .generator = generator_find(plan_schedule(&now.plan)),
                               .num_microbatches = 1 };
    return stage_memory(&in, now.stage);
}

static double error_of(double ours, double traced)
{
    return ours / traced - 1;
}

/* Computes the error of the predicted kept bytes. The loss keeps its softmax in fp32, which is as
 * large as the later gradient of the logits. */
static double kept_error(const struct stage_memory *memory, const json_t *of)
{
    int heads = now.held.count[PIECE_HEAD] + now.held.count[PIECE_LATER_HEAD];
    double softmax = heads * 4 * now.pieces.logits;
    double ours = memory->activations_bytes + softmax + sum_kept(repeated_keys_bytes) +
                  sum_kept(slices_bytes) + sum_kept(routing_bytes) + rotary_tables_bytes() +
                  rotary_angles_bytes() + gate_offset_bytes();
    return error_of(ours, number_of(of, "kept_bytes"));
}

static double peak_error(const struct stage_memory *memory, const json_t *of)
{
    double layer_bytes =
        memory->recompute_bytes + waiting_gradient_bytes() + softmax_gradient_bytes();
    double ours = memory->activations_bytes + fmax(memory->logits_bytes, layer_bytes) +
                  sum_kept(repeated_keys_bytes) + sum_kept(slices_bytes) + sum_kept(routing_bytes) +
                  rotary_tables_bytes() + gate_offset_bytes() + rotary_angles_bytes() +
                  buffer_bytes();
    return error_of(ours, number_of(of, "peak_bytes"));
}

/* Whether the model has experts, latent attention or modules for later tokens. Such models were
 * traced after the differences of the other models were known. */
static bool is_new_family(void)
{
    return now.model.experts > 0 || now.model.kv_lora > 0 || now.model.mtp > 0;
}

/* --- all cases ------------------------------------------------------------------------------- */

enum { MAX_CASES = 256 };

static void check_errors(double *errors, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        errors[i] = fabs(errors[i]);
    double median = numbers_median(errors, (int)count);
    ck_assert_msg(median <= 0.02, "median error of %s: %.1f %%", what, 100 * median);
}

START_TEST(megatron_core_runs_our_ops_and_keeps_our_bytes)
{
    struct json_file file = { 0 };
    struct err err = { 0 };
    double kept[MAX_CASES], peak[MAX_CASES];
    size_t i, dense = 0;
    json_t *of;
    check_ok(json_file_load(&file, "tests/fixtures/traces/megatron.json", &err), &err);
    json_t *cases = json_object_get(file.root, "cases");
    json_array_foreach (cases, i, of) {
        load(of, "megatron-core");
        check_lists();
        check_launches(of);
        struct stage_memory memory = memory_of();
        kept[i] = kept_error(&memory, of);
        double parameters = stage_parameters(&now.model, &now.plan, &now.pieces, now.stage);
        ck_assert_msg(parameters == number_of(of, "parameters"),
                      "%s: another number of parameters than in the trace", now.name);
        double most = is_new_family() ? 0.02 : 0.08;
        ck_assert_msg(fabs(kept[i]) <= most, "%s: the kept bytes differ by %+.1f %%", now.name,
                      100 * kept[i]);
        if (now.model.experts == 0 && now.model.kv_lora == 0) {
            peak[dense] = peak_error(&memory, of);
            ck_assert_msg(fabs(peak[dense]) <= 0.08, "%s: the peak differs by %+.1f %%", now.name,
                          100 * peak[dense]);
            dense++;
        }
        release();
    }
    check_errors(kept, i, "kept bytes");
    check_errors(peak, dense, "peaks");
    json_file_release(&file);
}
END_TEST

/* At the loss torchtitan holds three tensors of logits' size in fp32, i.e. 12 bytes: its
 * log-softmax, the gradient of this, and the gradient of the logits. It deletes the logits before
 * the backward (train.py). Our stack counts the logits too. With a split vocabulary PyTorch also
 * keeps the exponentials (torch/distributed/tensor/parallel/loss.py). */
static double loss_logits_bytes(void)
{
    return now.pieces.logits * 4 * (now.plan.tp > 1 ? 4 : 3);
}

/* From PyTorch 2.8 on, a norm is scaled in fp32 and its input is kept in fp32. Our stack models
 * PyTorch 2.7, which keeps the input in 16 bits, i.e. 2 bytes less per value. */
static double scaled_norms_bytes(void)
{
    bool is_per_op = now.plan.recompute == RECOMPUTE_SELECTIVE;
    int layers = is_per_op ? 0 : now.held.count[0] - now.held.recomputed[0];
    return bytes_of((2.0 * layers + 1) * now.dims.norm_tokens * now.dims.hidden);
}

/* At the loss only the last FSDP unit is gathered, as the layer before it is prefetched after the
 * loss; our memory model counts two of the largest units. The gradients are those of earlier
 * microbatches. */
static double loss_bytes(const struct stage_memory *memory)
{
    double gradients = now.microbatches > 1 ? memory->optimizer_bytes / 3 : 0;
    return memory->weights_bytes + memory->optimizer_bytes + gradients + memory->activations_bytes +
           scaled_norms_bytes() + loss_logits_bytes() +
           bytes_of(now.pieces.at[PIECE_HEAD].parameters);
}

/* DTensor computes the gradient of the whole embedding on every tensor rank and keeps its share of
 * it (aten.embedding_dense_backward); at that time the last layer's gradient is being reduced in
 * fp32, and all others are already reduced. */
static double table_bytes(const struct stage_memory *memory)
{
    if (now.plan.tp == 1)
        return 0;
    double table = now.pieces.at[PIECE_EMBEDDING].parameters;
    double gradients = memory->optimizer_bytes / 3 - 4 * table / now.plan.dp;
    return memory->weights_bytes + memory->optimizer_bytes + gradients +
           bytes_of((now.plan.tp + 2) * table) + 4 * now.pieces.at[0].parameters;
}

/* Returns all memory of a rank except the workspaces of libraries, which a host without a GPU does
 * not have. */
static double titan_bytes(void)
{
    struct stage_memory whole = memory_of();
    now.system.stack.memory.logits_bytes = 0;
    struct stage_memory layers = memory_of();
    double layers_bytes = layers.allocated_bytes - layers.library_bytes + scaled_norms_bytes();
    return fmax(fmax(loss_bytes(&whole), table_bytes(&whole)), layers_bytes);
}

START_TEST(torchtitan_runs_our_ops_and_keeps_our_bytes)
{
    struct json_file file = { 0 };
    struct err err = { 0 };
    double peak[MAX_CASES];
    size_t i;
    json_t *of;
    check_ok(json_file_load(&file, "tests/fixtures/traces/torchtitan.json", &err), &err);
    json_array_foreach (json_object_get(file.root, "cases"), i, of) {
        load(of, "torchtitan-eager");
        check_lists();
        peak[i] = error_of(titan_bytes(), number_of(of, "peak_bytes"));

        ck_assert_msg(fabs(peak[i]) <= 0.08, "%s: the peak differs by %+.1f %%", now.name,
                      100 * peak[i]);
        release();
    }
    check_errors(peak, i, "peaks");
    json_file_release(&file);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("traces");
    tcase_add_test(tc, megatron_core_runs_our_ops_and_keeps_our_bytes);
    tcase_add_test(tc, torchtitan_runs_our_ops_and_keeps_our_bytes);
    Suite *s = suite_create("sim/framework_traces");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
