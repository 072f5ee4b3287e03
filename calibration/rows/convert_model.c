/* Sets the model of a measured row: a preset, changed to the dimensions that the row states. */
#include "calibration/rows/convert_part.h"

#include <stdio.h>
#include <string.h>

static bool read_dimensions(const struct run_row *row, struct model *out, struct err *err)
{
    int batch = 0;
    if (!row_count(row->layers, "layers", &out->layers, err) ||
        !row_count(row->hidden, "hidden", &out->hidden, err) ||
        !row_count(row->heads, "heads", &out->heads, err) ||
        !row_count(row->vocab, "vocab", &out->vocab, err) ||
        !row_count(row->seq, "seq", &out->seq, err) ||
        !row_count(row->gbs_seqs, "gbs_seqs", &batch, err) ||
        !row_count_or(row->kv_heads, "kv_heads", out->heads, &out->kv_heads, err))
        return false;
    out->batch = batch;
    if (row->gated_mlp > 0 && !row_is_stated(row->ffn_hidden))
        return row_skip(err, "ffn_hidden", "is not stated");
    return row_count_or(row->ffn_hidden, "ffn_hidden", 0, &out->ffn, err);
}

/* Sets the properties of experts. A row states one feed-forward width; in models with experts it is
 * the width of an expert. If the row has fewer layers than the preset, the first dense blocks are
 * kept as far as they fit. The row's number of parameters does not include modules that predict
 * later tokens. */
static bool read_experts(const struct conversion *of, int dense_ffn, struct model *out,
                         struct err *err)
{
    const struct run_row *row = of->row;
    bool has_preset = out->experts > 0;
    memset(&out->blocks, 0, sizeof out->blocks);
    if (!row_is_stated(row->experts) || row->experts == 0) {
        if (has_preset)
            return row_skip(err, "experts", "are not stated");
        return true;
    }
    out->expert_ffn = out->ffn;
    out->ffn = dense_ffn;
    out->mtp = 0;
    if (!has_preset)
        convert_assume(of, "experts in every block, none shared: no preset is known for the model");
    if (out->first_dense > out->layers)
        out->first_dense = out->layers;
    return row_count(row->experts, "experts", &out->experts, err) &&
           row_count(row->topk, "topk", &out->topk, err);
}

static void take_options(const struct match_model *from, struct model *out)
{
    out->norm = from->norm;
    out->activation = from->activation;
    out->positions = from->positions;
    out->linear_bias = from->linear_bias;
    out->embedding_norm = from->embedding_norm;
    out->tied = from->tied;
    out->dropout = from->dropout;
}

bool convert_model(const struct conversion *of, struct err *reason)
{
    const struct run_row *row = of->row;
    struct model *out = &of->out->model;
    memset(out, 0, sizeof *out);
    const struct match_model *rule =
        match_find_model(&of->systems->match, row->model_name, row->software, row->gated_mlp > 0);
    if (!rule)
        return err_set(reason, ERR_INFEASIBLE, "model_name",
                       "no rule of match.json matches this model");
    if (*rule->preset && !model_load(rule->preset, out, reason))
        return false;
    int dense_ffn = out->ffn; /* of the preset */
    if (!read_dimensions(row, out, reason) || !read_experts(of, dense_ffn, out, reason))
        return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, row->model_name);
    if (!*rule->preset)
        take_options(rule, out);
    if (out->experts > 0)
        out->routing.kind = of->routing;
    return model_derive(out, reason);
}
