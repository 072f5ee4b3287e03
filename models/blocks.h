/* models/blocks.h - which kind each block of a model has. A kind is a set of widths and of
 * attention and feed-forward types (block_kind.h); a run is a number of equal blocks in a row. */
#ifndef MODELS_BLOCKS_H
#define MODELS_BLOCKS_H

#include "base/err.h"
#include "base/field.h"
#include "models/model.h"

#include <jansson.h>
#include <stdbool.h>

/* The kind that the model's own fields describe. All blocks have this kind if they are alike. */
struct block_kind model_own_kind(const struct model *model);
struct block_kind model_kind(const struct model *model, int kind);
/* A copy of the model in which all blocks are of this kind, and which has no experts if the kind
 * has none. */
struct model model_of_kind(const struct model *model, int kind);
/* A copy of the model in which all blocks are like its last one, as the blocks of
 * multi-token-prediction modules are. */
struct model model_of_later(const struct model *model);
int model_kind_of(const struct model *model, int layer);
/* Counts the blocks of each kind among `layers` blocks from `first` on. */
void model_count_kinds(const struct model *model, int first, int layers,
                       int counts[MAX_BLOCK_KINDS]);
/* Whether the `layers` blocks from `first` on have, one by one, the same kinds as those from
 * `other` on. */
bool model_blocks_repeat(const struct model *model, int first, int other, int layers);
/* Whether some blocks have this kind of attention (enum attention_kind). */
bool model_has_attention(const struct model *model, int attention);
/* Whether some blocks have a linear mixer, which keeps a state instead of keys and values. */
bool model_has_states(const struct model *model);
extern const struct field block_fields[]; /* the fields of a run in a preset file */
extern const size_t num_block_fields;

bool block_kinds_are_equal(const struct block_kind *a, const struct block_kind *b);
/* Whether the kinds differ only in the gradients that their backwards compute. */
bool blocks_have_one_width(const struct blocks *blocks);
bool blocks_are_equal(const struct blocks *a, const struct blocks *b);

/* Sets the model's runs from the kind of each layer, as the shortest pattern that repeats. */
bool blocks_of_layers(const struct block_kind *layers, struct model *model, struct err *err);
/* Whether the runs of blocks follow from first_dense and moe_step. */
bool blocks_follow_experts(const struct model *model);
/* Sets the runs of a model with experts. The first `first_dense` blocks have a plain feed-forward.
 * Of the others, every moe_step-th block, counted from the model's first, has experts. The last
 * round of runs may be cut short. */
bool blocks_of_experts(struct model *model, struct err *err);

/* Reads "blocks" of a preset: [{"layers": 3, "ffn": 12288}, {"layers": 57}]; values that a run
 * omits are those of the model, which must have been derived. `runs` NULL: all blocks are of one
 * kind. */
bool blocks_read(const json_t *runs, struct model *model, struct err *err);
/* Writes "blocks". Returns NULL when all blocks are of one kind, or when the runs follow from
 * first_dense and moe_step. */
json_t *blocks_write(const struct model *model);
/* Checks the widths of all kinds, and that the number of layers is a multiple of the layers in one
 * round of runs. */
bool blocks_check(const struct model *model, struct err *err);

#endif
