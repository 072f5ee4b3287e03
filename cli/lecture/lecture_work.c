/* cli/lecture/lecture_work.c - the lecture's rows about parameters, FLOPs and utilization. */
#include "cli/lecture/lecture.h"

#include "sim/cost/piece.h"

#include <math.h>

static const char topic[] = "WORK OF A STEP";

/* Adds a sentence about the difference of a layer's parameters from 12 h^2. */
static void add_shape(const struct model *model, struct lecture_row *row)
{
    int kinds = model_num_kinds(model);
    if (kinds > 1) {
        lecture_gap(row, ", because its blocks are of %d kinds", kinds);
        return;
    }
    if (model->kv_heads != model->heads)
        lecture_gap(row, ", with %d key heads for %d query heads", model->kv_heads, model->heads);
    if (model_is_gated(model))
        lecture_gap(row, ", with three feed-forward matrices of width %d", model->ffn);
    else if (model->ffn != 4 * model->hidden)
        lecture_gap(row, ", with a feed-forward width of %d", model->ffn);
}

static void add_parameters(struct lecture *lecture, const struct lecture_case *of)
{
    const struct model *model = &of->setup->model;
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = topic,
                                          .name = "parameters P",
                                          .unit = LECTURE_COUNT,
                                          .textbook = of->estimate->parameters,
                                          .detailed = model_parameters(model) },
                    "12 l h^2 + 2 v h");
    double layers = model_blocks_parameters(model);
    double textbook_layers = model->layers * textbook_layer_parameters(model);
    text_add(&row->filled, "12 x %d x %d^2 + 2 x %d x %d", model->layers, model->hidden,
             model->vocab, model->hidden);
    lecture_gap(row, "The layers have %s parameters; 12 l h^2 is %s",
                in_unit(layers, LECTURE_COUNT).text, in_unit(textbook_layers, LECTURE_COUNT).text);
    add_shape(model, row);
    lecture_gap(row, "; embeddings and head have %s, and 2 v h is %s%s.",
                in_unit(model_parameters(model) - layers, LECTURE_COUNT).text,
                in_unit(of->estimate->parameters - textbook_layers, LECTURE_COUNT).text,
                model->tied ? ", as both share one table" : "");
}

/* FLOPs per weight and token: 6, 8 or a value between. */
static double flops_a_weight(const struct textbook_setup *textbook)
{
    return textbook_flops(1, 1, textbook->recomputed);
}

static double executed_flops(const struct lecture_case *of)
{
    return of->prediction->hfu * of->prediction->step_s * of->gpus.count *
           of->gpus.peak_flops_per_s;
}

static void add_flops(struct lecture *lecture, const struct lecture_case *of)
{
    const struct textbook_estimate *estimate = of->estimate;
    struct lecture_row *row = lecture_add(lecture,
                                          (struct lecture_row){ .topic = topic,
                                                                .name = "FLOPs",
                                                                .unit = LECTURE_FLOPS,
                                                                .textbook = estimate->flops,
                                                                .detailed = executed_flops(of) },
                                          lecture_flops_formula(of->textbook->recomputed));
    text_add(&row->filled, "%.5g x %s x %s", flops_a_weight(of->textbook),
             in_digits(estimate->tokens).text, in_digits(estimate->parameters).text);
    lecture_gap(row,
                "The executed ops also include attention's matrix products, but no matrix product "
                "with the embedding%s.",
                plan_replays_core(&of->setup->plan) ? ", and attention is recomputed" : "");
}

static void add_compute(struct lecture *lecture, const struct lecture_case *of)
{
    const struct time_parts *time = &of->prediction->time;
    double busy_s = time->compute_s + time->recompute_s;
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = topic,
                                          .name = "compute, at the profile's U",
                                          .unit = LECTURE_SECONDS,
                                          .textbook = of->estimate->compute_s,
                                          .detailed = busy_s },
                    "FLOPs/(N F U)");
    text_add(&row->filled, "%s / (%d x %s x %.4g)", in_digits(of->estimate->flops).text,
             of->gpus.count, in_flops_per_s(of->gpus.peak_flops_per_s).text,
             of->textbook->utilization);
    lecture_gap(row,
                "The ops of the busiest stage take as long as these FLOPs at %.1f %% of the peak: "
                "not all ops are large matrix products, and some only move bytes.",
                100 * textbook_utilization(of->gpus, of->estimate->flops, busy_s));
}

/* Adds the lectures' utilization U, from the time of T tokens and P parameters: 6 T P FLOPs without
 * recompute, 8 T P with recompute. */
static void add_utilization(struct lecture *lecture, const struct lecture_case *of, double share,
                            double detailed, const char *name)
{
    const struct textbook_estimate *estimate = of->estimate;
    double flops = textbook_flops(estimate->parameters, estimate->tokens, share);
    double step_s = of->prediction->step_s;
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = topic,
                                          .name = name,
                                          .unit = LECTURE_SHARE,
                                          .textbook = textbook_utilization(of->gpus, flops, step_s),
                                          .detailed = detailed },
                    lecture_flops_formula(share));
    text_add(&row->formula, "/(N F t)");
    text_add(&row->filled, "%.5g x %s x %s / (%d x %s x %s)", 6 + 2 * share,
             in_digits(estimate->tokens).text, in_digits(estimate->parameters).text, of->gpus.count,
             in_flops_per_s(of->gpus.peak_flops_per_s).text, in_seconds(step_s).text);
    lecture_gap(row,
                "%s counts attention's matrix products, but no matrix product with the embedding.",
                share > 0 ? "HFU" : "MFU");
}

void lecture_add_work(struct lecture *lecture, const struct lecture_case *of)
{
    add_parameters(lecture, of);
    add_flops(lecture, of);
    add_compute(lecture, of);
    add_utilization(lecture, of, 0, of->prediction->mfu, "U of the predicted step");
    if (of->textbook->recomputed > 0)
        add_utilization(lecture, of, of->textbook->recomputed, of->prediction->hfu,
                        "U including recomputed FLOPs");
}

/* --- ways to count MFU ---------------------------------------------------------------------- */

/* A convention of counting FLOPs: the FLOPs of a step by its formula, and by the same convention
 * with the model's exact widths. */
struct convention {
    const char *name, *formula;
    double textbook_flops, detailed_flops;
};

static struct lecture_row *add_convention(struct lecture *lecture, const struct lecture_case *of,
                                          const struct convention *convention)
{
    double step_s = of->prediction->step_s;
    struct lecture_row *row = lecture_add(
        lecture,
        (struct lecture_row){
            .topic = "WAYS TO COUNT MFU",
            .name = convention->name,
            .unit = LECTURE_SHARE,
            .textbook = textbook_utilization(of->gpus, convention->textbook_flops, step_s),
            .detailed = textbook_utilization(of->gpus, convention->detailed_flops, step_s) },
        convention->formula);
    return row;
}

static void fill_convention(struct lecture_row *row, const struct lecture_case *of,
                            const char *flops)
{
    text_add(&row->filled, "%s / (%d x %s x %s)", flops, of->gpus.count,
             in_flops_per_s(of->gpus.peak_flops_per_s).text,
             in_seconds(of->prediction->step_s).text);
}

/* The formula of FLOPs in papers, c B s l h^2 (1 + s/(n h) + v/(k l h)), with the constants c, n
 * and k. */
struct closed_form {
    int factor, attention, head;
};

static void fill_closed(struct lecture_row *row, const struct lecture_case *of,
                        struct closed_form form)
{
    const struct model *model = &of->setup->model;
    struct text flops = { 0 };
    text_add(&flops, "%d x %.0f x %d x %d x %d^2 x (1 + %d / (%d x %d) + %d / (%d x %d x %d))",
             form.factor, model->batch, model->seq, model->layers, model->hidden, model->seq,
             form.attention, model->hidden, model->vocab, form.head, model->layers, model->hidden);
    fill_convention(row, of, text_get(&flops));
    text_release(&flops);
}

static void add_width_gap(struct lecture_row *row, const struct lecture_case *of)
{
    const struct model *model = &of->setup->model;
    lecture_gap(row, "The detailed value counts FLOPs from the model's own widths");
    add_shape(model, row);
    lecture_gap(row, ".");
}

void lecture_add_mfu(struct lecture *lecture, const struct lecture_case *of)
{
    const struct model *model = &of->setup->model;
    struct textbook_batch batch = { (int)model->batch, model->seq };
    double model_flops =
        of->prediction->mfu * of->prediction->step_s * of->gpus.count * of->gpus.peak_flops_per_s;
    double tokens = model->batch * model->seq;
    double width = (double)model->heads * model->head_dim;
    /* scores and context in forward and backward, causal half: 6 s H d per token and layer */
    double half_attention = 6 * tokens * model->layers * model->seq * width;
    double head = 6 * tokens * model->hidden * model->vocab;
    double parameters = model_parameters(model);

    struct lecture_row *row =
        add_convention(lecture, of,
                       &(struct convention){ "causal half, with the head (as here)",
                                             "72 B s l h^2 (1 + s/(12 h) + v/(12 l h))/(N F t)",
                                             textbook_causal_flops(model, batch), model_flops });
    fill_closed(row, of, (struct closed_form){ 72, 12, 12 });
    add_width_gap(row, of);
    row = add_convention(lecture, of,
                         &(struct convention){ "full attention, with the head",
                                               "72 B s l h^2 (1 + s/(6 h) + v/(12 l h))/(N F t)",
                                               textbook_model_flops(model, batch),
                                               model_flops + half_attention });
    fill_closed(row, of, (struct closed_form){ 72, 6, 12 });
    add_width_gap(row, of);
    row = add_convention(
        lecture, of,
        &(struct convention){ "causal half, no head", "72 B s l h^2 (1 + s/(12 h))/(N F t)",
                              textbook_causal_flops(model, batch) - head, model_flops - head });
    struct text flops = { 0 };
    text_add(&flops, "72 x %.0f x %d x %d x %d^2 x (1 + %d / (12 x %d))", model->batch, model->seq,
             model->layers, model->hidden, model->seq, model->hidden);
    fill_convention(row, of, text_get(&flops));
    text_release(&flops);
    add_width_gap(row, of);
    row = add_convention(
        lecture, of,
        &(struct convention){
            "PaLM: full attention, with the embedding", "T (6 P + 12 l h s)/(N F t)",
            tokens * textbook_palm_token_flops(model, of->estimate->parameters, model->seq),
            tokens * textbook_palm_token_flops(model, parameters, model->seq) });
    text_add(&flops, "%s x (6 x %s + 12 x %d x %d x %d)", in_digits(tokens).text,
             in_digits(of->estimate->parameters).text, model->layers, model->hidden, model->seq);
    fill_convention(row, of, text_get(&flops));
    text_release(&flops);
    lecture_gap(row, "The model has %s parameters.", in_unit(parameters, LECTURE_COUNT).text);
    if (of->setup->plan.recompute >= RECOMPUTE_FULL) {
        row = add_convention(
            lecture, of,
            &(struct convention){ "HFU, full recompute",
                                  "96 B s l h^2 (1 + s/(6 h) + v/(16 l h))/(N F t)",
                                  textbook_recompute_flops(model, batch), executed_flops(of) });
        fill_closed(row, of, (struct closed_form){ 96, 6, 16 });
        lecture_gap(row, "The detailed value counts the FLOPs that the ops execute%s%s.",
                    of->textbook->recomputed < 1 ? "; only some layers are recomputed" : "",
                    plan_attention_kernel(&of->setup->plan, &of->setup->system) != ATTENTION_UNFUSED
                        ? "; fused attention skips masked scores"
                        : "");
    }
    if (plan_replays_core(&of->setup->plan)) {
        row = add_convention(
            lecture, of,
            &(struct convention){ "HFU, attention recomputed",
                                  "72 B s l h^2 (1 + s/(3 h) + v/(12 l h))/(N F t)",
                                  textbook_selective_flops(model, batch), executed_flops(of) });
        fill_closed(row, of, (struct closed_form){ 72, 3, 12 });
        lecture_gap(
            row,
            "The formula counts all of attention's FLOPs twice, but only the forward, a third of "
            "them, is recomputed; the detailed value counts the FLOPs that the ops execute.");
    }
}
