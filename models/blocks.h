/* models/blocks.h - the kinds of a model's transformer blocks, and which block is of which kind.
 *
 * Kinds differ in widths (heads, feed-forward) only; most models have one kind. Runs of equal
 * blocks follow each other from the first block and repeat after the last run: { 1 of A, 1 of B }
 * alternates A and B. */
#ifndef MODELS_BLOCKS_H
#define MODELS_BLOCKS_H

#include "base/err.h"
#include "base/field.h"

#include <jansson.h>
#include <stdbool.h>

struct model;

enum { MAX_BLOCK_KINDS = 4, MAX_BLOCK_RUNS = 16 };

struct block_kind {
    int heads, kv_heads, head_dim, ffn; /* as in struct model */
};

struct block_run {
    int kind, layers;
};

/* The blocks of a model. No runs: all blocks are of one kind, with the model's own widths. */
struct blocks {
    struct block_kind kinds[MAX_BLOCK_KINDS];
    struct block_run runs[MAX_BLOCK_RUNS];
    int num_kinds, num_runs;
};

struct block_kind model_kind(const struct model *model, int kind);
/* The model as if all of its blocks were of this kind. */
struct model model_of_kind(const struct model *model, int kind);
int model_kind_of(const struct model *model, int layer);
/* Counts the blocks of each kind among `layers` blocks from `first` on. */
void model_count_kinds(const struct model *model, int first, int layers,
                       int counts[MAX_BLOCK_KINDS]);
extern const struct field block_fields[]; /* of a run in a file */
extern const size_t num_block_fields;

bool blocks_are_equal(const struct blocks *a, const struct blocks *b);

/* Reads "blocks" of a preset: [{"layers": 3, "ffn": 12288}, {"layers": 57}]; a run takes the widths
 * that it leaves out from the model, which must have been derived. `runs` NULL: one kind. */
bool blocks_read(const json_t *runs, struct model *model, struct err *err);
/* NULL when all blocks are of one kind. */
json_t *blocks_write(const struct model *model);
/* Checks the widths of all kinds, and that the layers are a multiple of the layers in all runs. */
bool blocks_check(const struct model *model, struct err *err);

#endif
