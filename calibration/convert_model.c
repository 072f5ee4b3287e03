#include "base/length.h"
#include "calibration/convert_part.h"

#include <stdio.h>
#include <string.h>

/* Options that no column tells, by the names of model and software. The first that matches wins. */
struct family {
    const char *model_name, *software; /* patterns of match_text */
    bool gated;
    int norm, activation, positions; /* enums of struct model */
    bool linear_bias, tied, embedding_norm;
    double dropout;
};

static const struct family families[] = {
    { .model_name = "*",
      .software = "*",
      .gated = true,
      .norm = NORM_RMS,
      .activation = ACTIVATION_SWIGLU,
      .positions = POSITION_ROTARY },
    /* Parmar et al. 2024, arXiv:2402.16819: squared ReLU, untied, no biases. */
    { .model_name = "Nemotron",
      .software = "*",
      .norm = NORM_LAYER,
      .activation = ACTIVATION_RELU,
      .positions = POSITION_ROTARY },
    { .model_name = "BLOOM",
      .software = "*",
      .norm = NORM_LAYER,
      .activation = ACTIVATION_GELU,
      .positions = POSITION_ALIBI,
      .linear_bias = true,
      .tied = true,
      .embedding_norm = true },
    /* MPT in llm-foundry, GPT-2 in llm.c and GPT in Paxml train without dropout. */
    { .model_name = "*",
      .software = "llm-foundry|MosaicML|llm.c|Pax|MaxText",
      .norm = NORM_LAYER,
      .activation = ACTIVATION_GELU,
      .positions = POSITION_LEARNED,
      .linear_bias = true,
      .tied = true },
    { .model_name = "*",
      .software = "*",
      .norm = NORM_LAYER,
      .activation = ACTIVATION_GELU,
      .positions = POSITION_LEARNED,
      .linear_bias = true,
      .tied = true,
      .dropout = 0.1 },
};
enum { NUM_FAMILIES = LENGTH(families) };

static const struct family *family_of(const struct run_row *row)
{
    for (int i = 0; i < NUM_FAMILIES - 1; i++)
        if (families[i].gated == (row->gated_mlp > 0) &&
            match_text(families[i].model_name, row->model_name) &&
            match_text(families[i].software, row->software))
            return &families[i];
    return &families[NUM_FAMILIES - 1];
}

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

bool run_model(const struct run_row *row, struct model *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    if (row->experts > 0)
        return err_set(err, ERR_INFEASIBLE, "experts", "mixture of experts is not modelled yet");
    if (!read_dimensions(row, out, err))
        return false;
    const struct family *family = family_of(row);
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, row->model_name);
    out->norm = family->norm;
    out->activation = family->activation;
    out->positions = family->positions;
    out->linear_bias = family->linear_bias;
    out->embedding_norm = family->embedding_norm;
    out->tied = family->tied;
    out->dropout = family->dropout;
    return model_derive(out, err);
}

bool convert_model(const struct conversion *of, struct err *reason)
{
    return run_model(of->row, &of->out->model, reason);
}
