/* sim/plan/stage_text.h - the parts of each pipeline chunk in Megatron-Core's letters, the value of
 * its --pipeline-model-parallel-layout: "Et*3|(t*4|)*14tmL".
 *
 * E is the embedding, t a block of any kind, m a module that predicts a later token, L head and
 * loss; | ends a chunk, *N repeats a letter or a part in parentheses, commas are ignored (Megatron
 * Core, transformer/pipeline_parallel_layer_layout.py). Chunks stand in the order of the model, as
 * in plan.chunk_layers. */
#ifndef SIM_PLAN_STAGE_TEXT_H
#define SIM_PLAN_STAGE_TEXT_H

#include "sim/plan/plan.h"

struct stage_text {
    int num_chunks;
    const int *layers; /* [chunk] blocks */
    int mtp;           /* number of modules that predict later tokens */
    int mtp_chunk;     /* the chunk that has all of them; the last one if there are none */
};

/* Reads letters in either case; the array lives in the arena. ERR_USAGE unless E occurs once and
 * first, L once and last, no block follows a module, and all modules are in one chunk. */
bool stage_text_read(const char *text, struct arena *arena, struct stage_text *out,
                     struct err *err);

/* Writes a short text for the chunks. */
void stage_text_write(const struct stage_text *stages, struct text *out);

/* The plan's chunks, with `mtp` modules where the plan places them; borrows the plan's list if it
 * has one. */
struct stage_text stage_text_of(const struct plan *plan, const struct model *model, int mtp,
                                struct arena *arena);

/* Megatron-Core's further conditions: the number of chunks is a multiple of pp, the chunks hold all
 * blocks of the model and `mtp` modules, and the modules are in the last chunk of their rank. If
 * one fails: ERR_INFEASIBLE with the value found and the value needed. */
bool stage_text_check(const struct stage_text *stages, const struct model *model, int pp, int mtp,
                      struct err *err);

#endif
