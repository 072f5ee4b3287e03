/* Parameters, FLOPs and compute time by the formulas of a lecture (docs/lecture.md), for a
 * transformer of l layers of width h with a feed-forward of width 4 h and a vocabulary of v. */
#include "sim/textbook/work.h"

/* The query, key, value and output projections have h^2 parameters each, the two feed-forward
 * matrices 4 h^2 each; biases and norms are left out. Kaplan et al. 2020, table 1. */
double textbook_layer_parameters(const struct model *model)
{
    double h = model->hidden;
    return 12 * h * h;
}

/* The parameters of the layers, plus v h for the token embedding and v h for a separate output head
 * (vocabulary v, hidden size h). */
double textbook_parameters(const struct model *model)
{
    double embedding_and_head = 2.0 * model->vocab * model->hidden;
    return model->layers * textbook_layer_parameters(model) + embedding_and_head;
}

/* Per token and weight there is one multiply-add in the forward and two in the backward (input and
 * weight gradient): 2 + 4 FLOPs. Recompute of a layer's forward adds 2. Narayanan et al. 2021, eq.
 * 4, has 8 per weight and token, with recompute; Kaplan et al. 2020, section 2.1, has 6. */
double textbook_flops(double parameters, double tokens, double recomputed)
{
    double flops_per_weight_and_token = 6 + 2 * recomputed;
    return flops_per_weight_and_token * tokens * parameters;
}

/* FLOPs of the matrix products with weights: 24 h^2 per layer and token in one forward, times
 * `passes`. The four functions below multiply this by 1 + attention's share + the output head's
 * share. */
static double layer_flops(const struct model *model, struct textbook_batch batch, double passes)
{
    double h = model->hidden;
    double tokens = (double)batch.sequences * batch.seq;
    return passes * 24 * tokens * model->layers * h * h;
}

/* 96 B s l h^2 (1 + s/(6h) + V/(16 l h)) for B sequences of s tokens, l layers of width h and a
 * vocabulary V: four passes over the layers (forward, recompute, and a backward that counts twice)
 * and three over the head. Narayanan et al. 2021, eq. 3. */
double textbook_recompute_flops(const struct model *model, struct textbook_batch batch)
{
    double h = model->hidden;
    double attention = batch.seq / (6 * h);
    double head = model->vocab / (16 * model->layers * h);
    return layer_flops(model, batch, 4) * (1 + attention + head);
}

/* 72 B s l h^2 (1 + s/(6h) + V/(12 l h)): three passes over layers and head. Korthikanti et al.
 * 2022, appendix A. */
double textbook_model_flops(const struct model *model, struct textbook_batch batch)
{
    double h = model->hidden;
    double attention = batch.seq / (6 * h);
    double head = model->vocab / (12 * model->layers * h);
    return layer_flops(model, batch, 3) * (1 + attention + head);
}

/* 72 B s l h^2 (1 + s/(12h) + V/(12 l h)): a causal mask halves attention's FLOPs. Megatron-LM,
 * megatron/training/training.py, num_floating_point_operations. */
double textbook_causal_flops(const struct model *model, struct textbook_batch batch)
{
    double h = model->hidden;
    double attention = batch.seq / (12 * h);
    double head = model->vocab / (12 * model->layers * h);
    return layer_flops(model, batch, 3) * (1 + attention + head);
}

/* 72 B s l h^2 (1 + s/(3h) + V/(12 l h)). Korthikanti et al. 2022, appendix A. Its attention term
 * s/(3h) is twice the s/(6h) of the model FLOPs. But recompute of attention's forward adds only a
 * third of s/(6h), so the paper's value is s/(9h) too high. */
double textbook_selective_flops(const struct model *model, struct textbook_batch batch)
{
    double h = model->hidden;
    double attention = batch.seq / (3 * h);
    double head = model->vocab / (12 * model->layers * h);
    return layer_flops(model, batch, 3) * (1 + attention + head);
}

/* 6 FLOPs per weight, embeddings included, and 12 l h s for scores and context over the full,
 * unmasked sequence. Chowdhery et al. 2022, appendix B. */
double textbook_palm_token_flops(const struct model *model, double parameters, int seq)
{
    double attention_flops = 12.0 * model->layers * model->hidden * seq;
    return 6 * parameters + attention_flops;
}

/* N GPUs with peak rate F sustain N F U at utilization U. Narayanan et al. 2021, eq. 4. */
double textbook_compute_s(struct textbook_gpus gpus, double flops, double utilization)
{
    return flops / (gpus.count * gpus.peak_flops_per_s * utilization);
}

/* The same equation solved for U. */
double textbook_utilization(struct textbook_gpus gpus, double flops, double time_s)
{
    return flops / (gpus.count * gpus.peak_flops_per_s * time_s);
}
