/* models/blocks.h - which block of a model is of which kind. */
#ifndef MODELS_BLOCKS_H
#define MODELS_BLOCKS_H

#include "base/err.h"
#include "base/field.h"
#include "models/model.h"

#include <jansson.h>
#include <stdbool.h>

/* The kind of a model's blocks where they are alike. */
struct block_kind model_own_kind(const struct model *model);
struct block_kind model_kind(const struct model *model, int kind);
/* The model as if all of its blocks were of this kind; without experts where the kind has none. */
struct model model_of_kind(const struct model *model, int kind);
/* The same for the blocks of modules that predict later tokens, which are like the last. */
struct model model_of_later(const struct model *model);
int model_kind_of(const struct model *model, int layer);
/* Counts the blocks of each kind among `layers` blocks from `first` on. */
void model_count_kinds(const struct model *model, int first, int layers,
                       int counts[MAX_BLOCK_KINDS]);
/* Whether the blocks from `first` on are, one by one, of the kinds of those from `other` on. */
bool model_blocks_repeat(const struct model *model, int first, int other, int layers);
extern const struct field block_fields[]; /* of a run in a file */
extern const size_t num_block_fields;

bool block_kinds_are_equal(const struct block_kind *a, const struct block_kind *b);
/* Whether the kinds differ in their gradients alone. */
bool blocks_have_one_width(const struct blocks *blocks);
bool blocks_are_equal(const struct blocks *a, const struct blocks *b);

/* Sets the runs from the kind of each of the model's layers: the fewest blocks that repeat. */
bool blocks_of_layers(const struct block_kind *layers, struct model *model, struct err *err);
/* Whether the runs of blocks follow from first_dense and moe_step. */
bool blocks_follow_experts(const struct model *model);
/* Sets the runs of a model with experts, whose first `first_dense` blocks have a plain
 * feed-forward, and of the others all but every moe_step-th; counted from the first block of the
 * model. The last round may be cut short. */
bool blocks_of_experts(struct model *model, struct err *err);

/* Reads "blocks" of a preset: [{"layers": 3, "ffn": 12288}, {"layers": 57}]; a run takes what it
 * leaves out from the model, which must have been derived. `runs` NULL: one kind. */
bool blocks_read(const json_t *runs, struct model *model, struct err *err);
/* NULL when all blocks are of one kind, or follow from first_dense and moe_step. */
json_t *blocks_write(const struct model *model);
/* Checks the widths of all kinds, and that the layers are a multiple of the layers in all runs. */
bool blocks_check(const struct model *model, struct err *err);

#endif
