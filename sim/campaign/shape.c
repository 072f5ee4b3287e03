/* Chooses the layers and the width of a model with a given number of parameters, in the style of
 * another model. The aspect says how the number of layers follows from the width. */
#include "sim/campaign/shape.h"

#include <math.h>
#include <stdio.h>

const char *const aspect_names[] = { "gpt3", "levine", NULL };

const char *aspect_source(enum aspect aspect)
{
    switch (aspect) {
    case ASPECT_GPT3:
        return "width = 128 x layers, as GPT-3 175B (12288 / 96: Brown et al. 2020, table 2.1) and "
               "LLaMA 7B and 13B (Touvron et al. 2023, table 2)";
    case ASPECT_LEVINE:
        return "ln width = 5.039 + 0.0555 layers (Levine et al. 2020, Limits to depth-efficiencies "
               "of self-attention, equation 11)";
    case NUM_ASPECTS:
        break;
    }
    return "";
}

double aspect_layers(enum aspect aspect, double width)
{
    switch (aspect) {
    case ASPECT_GPT3:
        return width / 128;
    case ASPECT_LEVINE:
        return (log(width) - 5.039) / 0.0555;
    case NUM_ASPECTS:
        break;
    }
    return 0;
}

/* Rounds to a multiple, at least one. */
static int multiple_of(double value, int unit)
{
    return unit * (int)fmax(1, round(value / unit));
}

/* The number of key-value heads. If the style model has one per head, this is `heads`; else it is
 * the largest number, up to that of the style model, that divides `heads`. */
static int kv_heads_of(const struct model *style, int heads)
{
    if (style->kv_heads == style->heads)
        return heads;
    int count = style->kv_heads < heads ? style->kv_heads : heads;
    while (heads % count != 0)
        count--;
    return count;
}

/* The style model at another width, with one layer. The feed-forward width keeps its ratio to
 * the width. If the ratio is not whole, the feed-forward width is rounded to the nearest multiple
 * of 256 (LLaMA rounds up to one: Touvron et al. 2023), or, in small models, of the head width. */
static struct model widened(const struct model *style, int heads)
{
    enum { FFN_UNIT = 256 };
    struct model model = *style;
    double share = (double)style->ffn / style->hidden;
    model.heads = heads;
    model.kv_heads = kv_heads_of(style, heads);
    model.hidden = heads * style->head_dim;
    bool is_whole = share == floor(share);
    int unit = is_whole ? 1 : model.hidden >= 8 * FFN_UNIT ? FFN_UNIT : style->head_dim;
    model.ffn = multiple_of(share * model.hidden, unit);
    model.layers = 1;
    return model;
}

/* The number of layers for which a model of this width comes closest to `parameters`, among
 * multiples of 2 from 8 layers on and multiples of 4 from 24 layers on. */
static int layers_for(const struct model *model, double parameters)
{
    double fixed = model_embedding_parameters(model) + model_head_parameters(model);
    double layers = (parameters - fixed) / model_layer_parameters(model);
    return multiple_of(layers, layers >= 24 ? 4 : layers >= 8 ? 2 : 1);
}

/* The number of parameters if the number of layers follows the aspect exactly, even where that
 * number is not whole. */
static double size_at(const struct model *model, enum aspect aspect)
{
    double layers = fmax(1, aspect_layers(aspect, model->hidden));
    return model_embedding_parameters(model) + model_head_parameters(model) +
           layers * model_layer_parameters(model);
}

/* The number of heads is a multiple of this: the largest power of two, up to 8, that is at most a
 * quarter of `heads`. */
static int head_unit(int heads)
{
    int unit = 1;
    while (unit < 8 && 8 * unit <= heads)
        unit *= 2;
    return unit;
}

static int heads_for(const struct model *style, enum aspect aspect, double parameters)
{
    int below = 1, above = 1;
    struct model model = widened(style, above);
    while (size_at(&model, aspect) < parameters) {
        below = above;
        above += head_unit(above);
        model = widened(style, above);
    }
    struct model smaller = widened(style, below);
    bool is_nearer = parameters * parameters < size_at(&smaller, aspect) * size_at(&model, aspect);
    return is_nearer ? below : above;
}

double shape_least(const struct model *style)
{
    struct model least = widened(style, 1);
    return model_parameters(&least);
}

bool shape_of_size(const struct model *style, enum aspect aspect, double parameters,
                   struct model *out, struct err *err)
{
    if (model_num_kinds(style) > 1)
        return err_set(err, ERR_USAGE, "--model",
                       "expected a model whose blocks are all alike; %s has %d kinds", style->name,
                       model_num_kinds(style));
    if (style->experts > 0 || style->kv_lora > 0)
        return err_set(
            err, ERR_USAGE, "--model",
            "expected a dense model without latent attention, as the scaling laws are for "
            "such models; %s has %s",
            style->name, style->experts > 0 ? "experts" : "latent attention");
    double least = shape_least(style);
    if (parameters < least)
        return err_set(err, ERR_USAGE, "",
                       "%.3g parameters are fewer than the %.3g of one layer with one head in the "
                       "style of %s",
                       parameters, least, style->name);
    *out = widened(style, heads_for(style, aspect, parameters));
    out->layers = layers_for(out, parameters);
    double size = model_parameters(out);
    bool is_large = size >= 1e9;
    snprintf(out->name, sizeof out->name, "%.40s-like-%.3g%c", style->name,
             size / (is_large ? 1e9 : 1e6), is_large ? 'b' : 'm');
    snprintf(out->summary, sizeof out->summary, "As %.60s, of another size", style->name);
    snprintf(out->source, sizeof out->source, "Style of %.60s; %.200s", style->name,
             aspect_source(aspect));
    out->tokens = 0;
    return model_derive(out, err);
}
