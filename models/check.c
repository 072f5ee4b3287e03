/* Checks of a model that concern more than one field. */
#include "models/model.h"

#include "base/length.h"
#include "base/plain.h"
#include "models/blocks.h"

#include <stddef.h>
#include <string.h>

/* Checks the text fields again, for models that were not read by fields_read. */
static bool check_texts(const struct model *model, struct err *err)
{
    if (model->name[0] == '\0')
        return err_set(err, ERR_INPUT, "name", "expected a name; found \"\"");
    for (size_t i = 0; i < num_model_fields; i++) {
        const struct field *field = &model_fields[i];
        const char *text = (const char *)model + field->offset;
        if (field->kind != FIELD_TEXT)
            continue;
        if (plain_fault(text))
            return err_set(err, ERR_INPUT, field->name, "expected one line of plain text");
    }
    return true;
}

/* Checks the bounds of integer fields again, for models that were not read by fields_read. */
static bool check_bounds(const struct model *model, struct err *err)
{
    for (size_t i = 0; i < num_model_fields; i++) {
        const struct field *field = &model_fields[i];
        if (field->kind != FIELD_INT)
            continue;
        int value;
        memcpy(&value, (const char *)model + field->offset, sizeof value);
        bool is_derived = field->offset == offsetof(struct model, kv_heads) ||
                          field->offset == offsetof(struct model, head_dim) ||
                          field->offset == offsetof(struct model, ffn);
        double min = is_derived ? 1 : field->min;
        if (value < min || value > field->max)
            return err_set(err, ERR_INPUT, field->name, "expected %.0f to %.0f; found %d", min,
                           field->max, value);
    }
    return true;
}

static bool check_positions(const struct model *model, struct err *err)
{
    if (model->positions == POSITION_LEARNED && model->max_positions < model->seq)
        return err_set(err, ERR_INPUT, "max_positions",
                       "the %d learned positions are fewer than the %d tokens of a sequence",
                       model->max_positions, model->seq);
    if (model->positions != POSITION_LEARNED && model->max_positions != 0)
        return err_set(err, ERR_INPUT, "max_positions",
                       "expected 0 with %s positions, which have no table; found %d",
                       position_names[model->positions], model->max_positions);
    bool is_relative = model->positions == POSITION_RELATIVE;
    if (is_relative != (model->relative_buckets > 0))
        return err_set(err, ERR_INPUT, "relative_buckets",
                       "expected %s with %s positions; found %d", is_relative ? "1 or more" : "0",
                       position_names[model->positions], model->relative_buckets);
    if (model->positions != POSITION_ROTARY && model->rope_theta != 0)
        return err_set(err, ERR_INPUT, "rope_theta",
                       "expected 0 with %s positions, which have no rotary angles; found %g",
                       position_names[model->positions], model->rope_theta);
    if (model->positions == POSITION_TRANSFORMER_XL && model->kv_lora > 0)
        return err_set(err, ERR_INPUT, "positions",
                       "positions=transformer_xl needs full keys per head, but kv_lora is %d",
                       model->kv_lora);
    return true;
}

/* A dependence between fields: `field` has a meaning only if the field `of` is not 0. */
static const struct dependence {
    const char *field, *of;
    bool is_required; /* `field` must not be 0 if `of` is not 0 */
} dependences[] = {
    { "topk", "experts", true },
    { "expert_ffn", "experts", true },
    { "shared_ffn", "experts", false },
    { "shared_gate", "shared_ffn", false },
    { "first_dense", "experts", false },
    { "moe_step", "experts", false },
    { "expert_groups", "experts", false },
    { "topk_groups", "expert_groups", true },
    { "router_bias", "experts", false },
    { "score_bias", "experts", false },
    { "expert_bias", "experts", false },
    { "q_lora", "kv_lora", false },
    { "qk_nope_dim", "kv_lora", true },
    { "qk_rope_dim", "kv_lora", true },
    { "v_head_dim", "kv_lora", true },
    { "index_heads", "q_lora", false },
    { "index_dim", "index_heads", true },
    { "index_topk", "index_heads", true },
    { "attention_blocks", "attention_block", true },
    { "linear_value_heads", "linear_key_heads", true },
    { "linear_key_dim", "linear_key_heads", true },
    { "linear_value_dim", "linear_key_heads", true },
    { "linear_conv", "linear_key_heads", true },
};

/* The value of an integer field, or of a bool field as 0 or 1. */
static int number_of(const struct model *model, const char *name)
{
    const struct field *field = fields_find(model_fields, num_model_fields, name);
    const char *at = (const char *)model + field->offset;
    int number = 0;
    if (field->kind == FIELD_BOOL)
        return *(const bool *)at;
    memcpy(&number, at, sizeof number);
    return number;
}

static bool check_dependences(const struct model *model, struct err *err)
{
    for (int i = 0; i < LENGTH(dependences); i++) {
        const struct dependence *row = &dependences[i];
        int of = number_of(model, row->of), value = number_of(model, row->field);
        if (of == 0 && value != 0)
            return err_set(err, ERR_INPUT, row->field, "has no meaning in a model without %s",
                           row->of);
        if (of != 0 && value == 0 && row->is_required)
            return err_set(err, ERR_INPUT, row->field,
                           "is missing; expected 1 or more in a model with %s", row->of);
    }
    return true;
}

static bool check_experts(const struct model *model, struct err *err)
{
    if (model->topk > model->experts)
        return err_set(err, ERR_INPUT, "topk", "expected at most the %d experts; found %d",
                       model->experts, model->topk);
    if (model->expert_groups > 0 && model->experts % model->expert_groups != 0)
        return err_set(err, ERR_INPUT, "expert_groups", "%d groups do not divide %d experts",
                       model->expert_groups, model->experts);
    if (model->topk_groups > model->expert_groups)
        return err_set(err, ERR_INPUT, "topk_groups", "expected at most the %d groups; found %d",
                       model->expert_groups, model->topk_groups);
    return true;
}

static bool check_latent(const struct model *model, struct err *err)
{
    int width = model->qk_nope_dim + model->qk_rope_dim;
    if (model->kv_lora > 0 && model->head_dim != width)
        return err_set(err, ERR_INPUT, "head_dim",
                       "expected qk_nope_dim + qk_rope_dim, %d; found %d", width, model->head_dim);
    if (model->kv_lora > 0 && model->kv_heads != model->heads)
        return err_set(err, ERR_INPUT, "kv_heads",
                       "expected as many as heads in latent attention, %d; found %d", model->heads,
                       model->kv_heads);
    return true;
}

/* Each kind of block needs the sizes of its attention and feed-forward. */
static bool check_kind_sizes(const struct model *model, const struct block_kind *kind,
                             struct err *err)
{
    static const char *const sizes[] = {
        [ATTENTION_WINDOW] = "sliding_window",   [ATTENTION_CHUNK] = "attention_chunk",
        [ATTENTION_SPARSE] = "index_heads",      [ATTENTION_DELTA] = "linear_key_heads",
        [ATTENTION_MAMBA] = "linear_key_heads",  [ATTENTION_BLOCKS] = "attention_block",
        [ATTENTION_LOW_RANK] = "attention_rank",
    };
    const char *size = sizes[kind->attention];
    if (size && number_of(model, size) == 0)
        return err_set(err, ERR_INPUT, size, "is missing; blocks have %s attention",
                       attention_kind_names[kind->attention]);
    if (kind->attention == ATTENTION_SPARSE && model->kv_lora == 0)
        return err_set(err, ERR_INPUT, "kv_lora",
                       "is missing; an indexer chooses keys of latent attention only");
    if (kind->attention == ATTENTION_LOW_RANK && model->kv_lora > 0)
        return err_set(err, ERR_INPUT, "attention_rank",
                       "expected plain attention, but kv_lora is %d", model->kv_lora);
    if (kind->feed_forward == FEED_FORWARD_EXPERTS && model->experts == 0)
        return err_set(err, ERR_INPUT, "experts", "is missing; blocks have experts");
    if (kind->attention == ATTENTION_NONE && kind->feed_forward == FEED_FORWARD_NONE)
        return err_set(err, ERR_INPUT, "blocks",
                       "expected attention or a feed-forward; found none");
    return true;
}

static bool check_kinds(const struct model *model, struct err *err)
{
    for (int i = 0; i < model_num_kinds(model); i++) {
        struct block_kind kind = model_kind(model, i);
        if (!check_kind_sizes(model, &kind, err))
            return false;
    }
    return true;
}

bool model_check(const struct model *model, struct err *err)
{
    if (!check_texts(model, err) || !check_bounds(model, err) || !blocks_check(model, err) ||
        !check_positions(model, err) || !check_dependences(model, err) ||
        !check_experts(model, err) || !check_latent(model, err) || !check_kinds(model, err))
        return false;
    double parameters = model_parameters(model);
    if (parameters > 1e18)
        return err_set(err, ERR_INPUT, "layers", "%.3g parameters are more than 1e18", parameters);
    return true;
}
