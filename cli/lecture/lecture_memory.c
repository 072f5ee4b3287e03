/* cli/lecture/lecture_memory.c - the lecture's rows about the memory of one copy of the model, and
 * of one rank. */
#include "cli/lecture/lecture.h"

#include "sim/cost/piece.h"
#include "sim/plan/state_share.h"

#include <math.h>

/* --- one copy of the model on any number of ranks ------------------------------------------- */

static const char copy_topic[] = "MEMORY OF ONE COPY OF THE MODEL";

static double recipe_bytes(const struct textbook_recipe *recipe)
{
    return recipe->parameter_bytes + recipe->gradient_bytes + recipe->optimizer_bytes;
}

static void add_state_words(struct lecture_row *row, const struct textbook_recipe *recipe)
{
    lecture_gap(row,
                "the plan keeps %.4g bytes of weights, %.4g of gradients and %.4g of master copy "
                "and moments per parameter",
                recipe->parameter_bytes, recipe->gradient_bytes, recipe->optimizer_bytes);
}

static void add_four_values(struct lecture *lecture, const struct lecture_case *of)
{
    const struct textbook_recipe *recipe = &of->textbook->recipe;
    double parameters = of->estimate->parameters;
    double fp32_bytes = 4;
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = copy_topic,
                                          .name = "state, four fp32 values",
                                          .unit = LECTURE_BYTES,
                                          .textbook = 4 * parameters * fp32_bytes,
                                          .detailed = model_parameters(&of->setup->model) *
                                                      recipe_bytes(recipe) },
                    "4 P x 4 B");
    text_add(&row->filled, "4 x %s x 4 B", in_digits(parameters).text);
    lecture_gap(row, "The plan does not keep four values of 4 bytes per parameter: ");
    add_state_words(row, recipe);
    lecture_gap(row, ".");
}

/* Explains why the ranks keep other activations than the lecture's 14 + 2 a s/h values per element
 * of the hidden states (a heads, sequence s, width h). */
static void add_activation_words(struct lecture_row *row, const struct lecture_case *of)
{
    const struct plan *plan = &of->setup->plan;
    const struct model *model = &of->setup->model;
    double started = textbook_layers_in_flight(textbook_pipeline_of(of->textbook), plan->pp);
    if (of->textbook->recomputed == 1)
        lecture_gap(row, "With full recompute a layer keeps only its input");
    else if (of->textbook->recomputed > 0)
        lecture_gap(row, "Only the input is kept for %.3g %% of the layers, which are recomputed",
                    100 * of->textbook->recomputed);
    else if (plan_replays_core(plan))
        lecture_gap(row, "As attention is recomputed, its s x s scores are not kept");
    else if (plan_attention_kernel(plan, &of->setup->system) != ATTENTION_UNFUSED)
        lecture_gap(row, "Fused attention does not keep the s x s scores");
    else
        lecture_gap(row, "The ops also keep the values of norms and dropout masks, if any");
    if (plan->pp > 1)
        lecture_gap(row, "; stage 0 holds the activations of its layers for %.3g microbatch%s",
                    started, started == 1 ? "" : "es");
    if (model_is_gated(model))
        lecture_gap(row, "; the gated feed-forward keeps the outputs of two matrices");
    lecture_gap(row, ".");
}

/* Adds b l (2 s^2 a + 14 s h) with numbers filled in (b batch, l layers). */
static void fill_values(struct text *out, const struct lecture_case *of, double sequences)
{
    const struct model *model = &of->setup->model;
    text_add(out, "%s x %d x (2 x %d^2 x %d + 14 x %d x %d)", in_digits(sequences).text,
             model->layers, model->seq, model->heads, model->seq, model->hidden);
}

static void add_copy_words(struct lecture_row *row, const struct lecture_case *of)
{
    static const char *const sharded[] = { "nothing", "master copy and moments",
                                           "gradients, master copy and moments", "all of them" };
    int ranks = of->setup->plan.tp * of->setup->plan.cp * of->setup->plan.pp;
    lecture_gap(row, "The %d GPU%s of one copy of the model %s %s of state and %s of activations: ",
                ranks, ranks == 1 ? "" : "s", ranks == 1 ? "holds" : "hold",
                in_bytes(of->copy_state_bytes).text, in_bytes(of->copy_activations_bytes).text);
    add_state_words(row, &of->textbook->recipe);
    if (plan_cuts(&of->setup->plan, STATE_OPTIMIZER))
        lecture_gap(row, "; ZeRO-%d shards %s", of->setup->plan.zero,
                    sharded[of->setup->plan.zero]);
    lecture_gap(row, ".");
}

static void add_activations(struct lecture *lecture, const struct lecture_case *of)
{
    const struct model *model = &of->setup->model;
    struct textbook_batch batch = { of->setup->plan.microbatch, model->seq };
    double value_bytes = of->textbook->value_bytes;
    struct lecture_row *row = lecture_add(
        lecture,
        (struct lecture_row){ .topic = copy_topic,
                              .name = "activations of a microbatch",
                              .unit = LECTURE_BYTES,
                              .textbook = value_bytes * textbook_activation_values(model, batch),
                              .detailed = of->copy_activations_bytes },
        "w b l (2 s^2 a + 14 s h)");
    text_add(&row->filled, "%.4g B x ", value_bytes);
    fill_values(&row->filled, of, batch.sequences);
    add_activation_words(row, of);
}

static void add_training(struct lecture *lecture, const struct lecture_case *of)
{
    const struct model *model = &of->setup->model;
    struct textbook_batch batch = { of->setup->plan.microbatch, model->seq };
    struct lecture_row *row = lecture_add(
        lecture,
        (struct lecture_row){ .topic = copy_topic,
                              .name = "fp32 training of a microbatch",
                              .unit = LECTURE_BYTES,
                              .textbook = textbook_training_bytes(model, batch),
                              .detailed = of->copy_state_bytes + of->copy_activations_bytes },
        "4 B x (48 l h^2 + b l (2 s^2 a + 14 s h))");
    text_add(&row->filled, "4 B x (48 x %d x %d^2 + ", model->layers, model->hidden);
    fill_values(&row->filled, of, batch.sequences);
    text_add(&row->filled, ")");
    add_copy_words(row, of);
}

/* Adds the row of plain data parallelism: memory 2 [4 Phi + (b/N) Theta] and traffic 2 Phi, for Phi
 * parameters, batch b, N ranks and Theta activations. */
static void add_data_parallel(struct lecture *lecture, const struct lecture_case *of)
{
    const struct model *model = &of->setup->model;
    double parameters = of->estimate->parameters;
    double sequences = model->batch / of->setup->plan.dp;
    double values = textbook_activation_values(model, (struct textbook_batch){ 1, model->seq });
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){
                        .topic = copy_topic,
                        .name = "data-parallel training, 16 bits",
                        .unit = LECTURE_BYTES,
                        .textbook = textbook_data_parallel_bytes(parameters, values, sequences),
                        .detailed = of->copy_state_bytes + of->copy_activations_bytes },
                    "2 [4 Phi + (b/N) Theta]");
    text_add(&row->filled, "2 B x (4 x %s + %s x %s)", in_digits(parameters).text,
             in_digits(sequences).text, in_digits(values).text);
    if (of->prediction->num_microbatches > 1)
        lecture_gap(row, "The %s sequences of a rank come in %d microbatches. ",
                    in_digits(sequences).text, of->prediction->num_microbatches);
    add_copy_words(row, of);

    row = lecture_add(lecture,
                      (struct lecture_row){
                          .topic = copy_topic,
                          .name = "gradients to all-reduce, 16 bits",
                          .unit = LECTURE_BYTES,
                          .textbook = textbook_data_parallel_traffic_bytes(parameters),
                          .detailed = of->setup->plan.dp == 1
                                          ? 0
                                          : model_parameters(model) * of->textbook->reduce_bytes },
                      "2 Phi");
    text_add(&row->filled, "2 B x %s", in_digits(parameters).text);
    if (of->setup->plan.dp == 1)
        lecture_gap(row, "With one data rank nothing is exchanged.");
    else
        lecture_gap(
            row, "The plan exchanges %.3g bytes of each of the model's %s parameters%s.",
            of->textbook->reduce_bytes, in_unit(model_parameters(model), LECTURE_COUNT).text,
            exchange_method_of(&of->setup->plan.exchange)->compressor ? " before it compresses them"
                                                                      : "");
}

void lecture_add_copy(struct lecture *lecture, const struct lecture_case *of)
{
    add_four_values(lecture, of);
    add_activations(lecture, of);
    add_training(lecture, of);
    add_data_parallel(lecture, of);
}

/* --- a rank of stage 0 ---------------------------------------------------------------------- */

static const char rank_topic[] = "MEMORY OF A RANK OF STAGE 0";

static void add_recipe(struct lecture *lecture, const struct lecture_case *of)
{
    const struct textbook_recipe *recipe = &of->textbook->recipe;
    struct lecture_row *row = lecture_add(lecture,
                                          (struct lecture_row){ .topic = rank_topic,
                                                                .name = "state per parameter",
                                                                .unit = LECTURE_BYTES,
                                                                .textbook = recipe_bytes(recipe),
                                                                .detailed = NAN },
                                          "weight + gradient + master copy and moments");
    text_add(&row->filled, "%.6g B + %.6g B + %.6g B", recipe->parameter_bytes,
             recipe->gradient_bytes, recipe->optimizer_bytes);
    lecture_gap(row, "Other recipes:");
    for (int i = 0; i < num_textbook_recipes; i++)
        lecture_gap(row, "%s %s %.6g", i > 0 ? "," : "", textbook_recipes[i].name,
                    recipe_bytes(&textbook_recipes[i]));
    lecture_gap(row, " bytes.");
}

/* State bytes of stage 0 at another ZeRO stage; NAN with err when the plan cannot use it. */
static double zero_state_bytes(const struct lecture_case *of, int zero, struct err *err)
{
    struct plan plan = of->setup->plan;
    struct prediction prediction;
    plan.zero = zero;
    if (!plan_cuts(&plan, STATE_OPTIMIZER))
        plan.shard = 0;
    if (!lecture_predict(of, &plan, &prediction, err))
        return NAN;
    const struct stage_memory *stage = &prediction.stages[0];
    return stage->weights_bytes + stage->gradients_bytes + stage->optimizer_bytes;
}

static void fill_zero(struct lecture_row *row, const struct lecture_case *of, int zero, int shards)
{
    static const char *const forms[] = { "(%.6g B + %.6g B + %.6g B)",
                                         "(%.6g B + %.6g B + %.6g B / %d)",
                                         "(%.6g B + (%.6g B + %.6g B) / %d)",
                                         "(%.6g B + %.6g B + %.6g B) / %d" };
    const struct textbook_recipe *recipe = &of->textbook->recipe;
    char bytes[96];
    snprintf(bytes, sizeof bytes, forms[zero], recipe->parameter_bytes, recipe->gradient_bytes,
             recipe->optimizer_bytes, shards);
    text_add(&row->filled, "%s / (%d x %d) x %s", in_digits(of->estimate->parameters).text,
             of->setup->plan.tp, of->setup->plan.pp, bytes);
}

/* Adds a row of Rajbhandari et al. 2020, figure 1: memory of a ZeRO stage. */
static void add_zero(struct lecture *lecture, const struct lecture_case *of, int stage)
{
    static const char *const names[] = { "ZeRO-0", "ZeRO-1", "ZeRO-2", "ZeRO-3" };
    static const char *const here[] = { "ZeRO-0, as here", "ZeRO-1, as here", "ZeRO-2, as here",
                                        "ZeRO-3, as here" };
    static const char *const formulas[] = { "P/(t p) (w + g + o)", "P/(t p) (w + g + o/d)",
                                            "P/(t p) (w + (g + o)/d)", "P/(t p) (w + g + o)/d" };
    const struct plan *plan = &of->setup->plan;
    struct err why = { 0 };
    bool is_here = stage == plan->zero;
    bool cuts = plan_cuts(plan, STATE_OPTIMIZER) && zero_cuts(stage, STATE_OPTIMIZER);
    int shards = cuts ? plan_shards(plan) : plan_replicas(plan);
    int stages = plan->pp;
    struct textbook_state state = textbook_state(
        &of->textbook->recipe, of->estimate->parameters / plan->tp / stages, stage, shards);
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = rank_topic,
                                          .name = (is_here ? here : names)[stage],
                                          .unit = LECTURE_BYTES,
                                          .textbook = textbook_state_bytes(&state),
                                          .detailed = zero_state_bytes(of, stage, &why) },
                    formulas[stage]);
    fill_zero(row, of, stage, shards);
    if (!isfinite(row->detailed))
        lecture_gap(row, "Not possible on this plan: %s.", why.msg);
    else if (plan->pp > 1)
        lecture_gap(row, "Stage 0 has the embedding and %d layers, not 1/p of P.",
                    plan_chunk_layers(plan, &of->setup->model, 0) * plan->vpp);
    else
        lecture_gap(row, "The model has %s parameters; the textbook's P is %s.",
                    in_unit(model_parameters(&of->setup->model), LECTURE_COUNT).text,
                    in_unit(of->estimate->parameters, LECTURE_COUNT).text);
}

static void add_largest(struct lecture *lecture, const struct lecture_case *of)
{
    double memory_bytes = of->setup->memory_bytes;
    double bytes = recipe_bytes(&of->textbook->recipe);
    int ranks = of->setup->plan.tp * of->setup->plan.pp;
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = rank_topic,
                                          .name = "parameters whose state fills a GPU",
                                          .unit = LECTURE_COUNT,
                                          .textbook = textbook_largest_model(memory_bytes, bytes),
                                          .detailed = NAN },
                    "M/(w + g + o)");
    text_add(&row->filled, "%s / %.6g B", in_bytes(memory_bytes).text, bytes);
    lecture_gap(row,
                "Without ZeRO and without activations, the %d GPU%s of one copy of the model %s %s "
                "parameters.",
                ranks, ranks == 1 ? "" : "s", ranks == 1 ? "holds" : "hold",
                in_unit(ranks * row->textbook, LECTURE_COUNT).text);
}

/* --- activations of a rank ------------------------------------------------------------------ */

static const char *layers_formula(const struct textbook_setup *textbook)
{
    struct textbook_pipeline pipeline = textbook_pipeline_of(textbook);
    if (pipeline.schedule == TEXTBOOK_NAIVE)
        return "l/p";
    if (pipeline.schedule == TEXTBOOK_GPIPE || pipeline.microbatches < pipeline.stages)
        return "l m/p";
    if (pipeline.schedule == TEXTBOOK_ZB_H2)
        return "l min(2 p - 1, m)/p";
    return pipeline.chunks > 1 ? "l min(p + (p - 1)/v, m)/p" : "l";
}

static double layer_bytes(const struct lecture_case *of, enum textbook_keep keep)
{
    return textbook_layer_activation_bytes(&of->setup->model, keep, of->textbook->tensor,
                                           textbook_microbatch_of(of->textbook),
                                           of->textbook->value_bytes);
}

/* Adds the activations of a layer, s b h (whole + (split + attention a s/h)/t), as formula and with
 * numbers; t is the number of tensor ranks. Terms that are 0 are omitted. */
static void add_layer(struct text *formula, struct text *filled, const struct lecture_case *of,
                      enum textbook_keep keep)
{
    const struct model *model = &of->setup->model;
    struct textbook_kept kept = textbook_kept(keep, of->textbook->value_bytes);
    int t = of->textbook->tensor, s = of->textbook->seq, h = model->hidden;
    text_add(formula, "s b h (");
    text_add(filled, "%d x %d x %d x (", s, of->textbook->microbatch, h);
    if (kept.whole_bytes > 0) {
        text_add(formula, "%.4g", kept.whole_bytes);
        text_add(filled, "%.4g", kept.whole_bytes);
    }
    if (kept.split_bytes > 0) {
        const char *plus = kept.whole_bytes > 0 ? " + " : "";
        text_add(formula, "%s(%.4g", plus, kept.split_bytes);
        text_add(filled, "%s(%.4g", plus, kept.split_bytes);
        if (kept.attention_bytes > 0) {
            text_add(formula, " + %.4g a s/h", kept.attention_bytes);
            text_add(filled, " + %.4g x %d x %d / %d", kept.attention_bytes, model->heads, s, h);
        }
        text_add(formula, ")/t");
        text_add(filled, ") / %d", t);
    }
    text_add(formula, ")");
    text_add(filled, ")");
}

static void add_kept(struct lecture *lecture, const struct lecture_case *of)
{
    const struct textbook_setup *textbook = of->textbook;
    const struct plan *plan = &of->setup->plan;
    enum textbook_keep input = textbook_keep_input(textbook->keep);
    double layers =
        textbook_layers_in_flight(textbook_pipeline_of(textbook), textbook->model->layers);
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = rank_topic,
                                          .name = "activations kept",
                                          .unit = LECTURE_BYTES,
                                          .textbook = of->estimate->activations_bytes,
                                          .detailed = of->prediction->stages[0].activations_bytes },
                    layers_formula(textbook));
    text_add(&row->filled, "%s x ", in_digits(layers).text);
    text_add(&row->formula, textbook->recomputed == 1 ? "/K " : " ");
    if (textbook->recomputed == 1) {
        text_add(&row->filled, "1 / %d x ", textbook->interval);
        add_layer(&row->formula, &row->filled, of, input);
    } else if (textbook->recomputed > 0) {
        text_add(&row->formula, "((1 - r) layer + r input)");
        text_add(&row->filled, "((1 - %.4g) x %s + %.4g x %s)", textbook->recomputed,
                 in_bytes(layer_bytes(of, textbook->keep)).text, textbook->recomputed,
                 in_bytes(layer_bytes(of, input)).text);
    } else {
        add_layer(&row->formula, &row->filled, of, textbook->keep);
    }
    lecture_gap(row,
                "The detailed value is the sum of the bytes that each op keeps, including the "
                "embedding%s%s%s.",
                of->setup->model.dropout > 0 ? "" : "; without dropout no masks are kept",
                model_is_gated(&of->setup->model)
                    ? "; the gated feed-forward keeps the outputs of two matrices"
                    : "",
                plan->pp > 1 ? "; the microbatches are those in flight on stage 0" : "");
}

/* Adds the row about checkpointed layers, N/K + K for N layers in groups of K: with the plan's K,
 * or with the best K if the plan recomputes nothing. */
static void add_checkpoints(struct lecture *lecture, const struct lecture_case *of)
{
    const struct textbook_setup *textbook = of->textbook;
    bool recomputes = textbook->recomputed > 0;
    double layers = (double)textbook->model->layers / (textbook->pipeline * textbook->chunks) *
                    (recomputes ? textbook->recomputed : 1);
    double best = textbook_best_interval(layers);
    double interval = recomputes ? textbook->interval : best;
    struct lecture_row *row = lecture_add(
        lecture,
        (struct lecture_row){ .topic = rank_topic,
                              .name = "layers held in memory by recompute",
                              .unit = LECTURE_COUNT,
                              .textbook = textbook_checkpointed_layers(layers, interval),
                              .detailed = NAN },
        recomputes ? "N/K + K" : "N/K + K at K = sqrt N");
    text_add(&row->filled, "%s / %.5g + %.5g", in_digits(layers).text, interval, interval);
    if (recomputes)
        lecture_gap(
            row,
            "A chunk has N = %s recomputed layers. A microbatch keeps N/K inputs, and K layers "
            "are in memory whole; the minimum is %.3g, at K = sqrt N = %.3g.",
            in_digits(layers).text, textbook_checkpointed_layers(layers, best), best);
    else
        lecture_gap(row, "This plan keeps the activations of all layers.");
}

static void add_working_set(struct lecture *lecture, const struct lecture_case *of)
{
    const struct textbook_setup *textbook = of->textbook;
    if (textbook->recomputed == 0)
        return;
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = rank_topic,
                                          .name = "recomputed activations",
                                          .unit = LECTURE_BYTES,
                                          .textbook = of->estimate->working_set_bytes,
                                          .detailed = of->prediction->stages[0].recompute_bytes },
                    "K ");
    text_add(&row->filled, "%d x ", textbook->interval);
    add_layer(&row->formula, &row->filled, of, textbook->keep);
    lecture_gap(
        row, "The detailed value is the bytes that the ops of these layers keep, plus gradients.");
}

void lecture_add_memory(struct lecture *lecture, const struct lecture_case *of)
{
    add_recipe(lecture, of);
    int num_shown = of->textbook->data > 1 ? NUM_ZERO_STAGES : 1;
    for (int i = 0; i < num_shown; i++)
        add_zero(lecture, of, i);
    add_largest(lecture, of);
    add_kept(lecture, of);
    add_working_set(lecture, of);
    add_checkpoints(lecture, of);
}
