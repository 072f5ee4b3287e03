/* search/splits.h - how the layers of a model may lie over the chunks of a pipeline.
 *
 * The splits that Megatron-Core's arguments and layout strings write in a few words. Divisions
 * that only a list can write are searched by search/uneven. */
#ifndef SEARCH_SPLITS_H
#define SEARCH_SPLITS_H

#include "base/arena.h"
#include "models/model.h"

/* What a search divides layers into. */
enum chunk_space { CHUNKS_MEGATRON, CHUNKS_EVEN, NUM_CHUNK_SPACES };

/* k is the largest chunk's number of layers. */
enum split_kind {
    SPLIT_EVEN,       /* k each */
    SPLIT_EMBEDDING,  /* the embedding counts as a layer: k - 1 in the first chunk
                            (account_for_embedding_in_pipeline_split) */
    SPLIT_LOSS,       /* the loss does: k - 1 in the last (account_for_loss_in_...) */
    SPLIT_BOTH,       /* both do */
    SPLIT_NEARLY,     /* k - 1 in the last, the first, then the second chunk and so on: where no
                            other divides the layers over these stages */
    SPLIT_LIGHT_LAST, /* first and last stage have their own numbers of layers, the last so few
                            that it takes no longer with the head than the others
                            (num_layers_in_first_pipeline_stage, ..._last_...) */
    SPLIT_GIVEN,      /* the base plan's list */
    SPLIT_ALSO,       /* that of a plan which the space is to have too */
    NUM_SPLIT_KINDS
};

struct split {
    int vpp;
    enum split_kind kind;
    const int *layers; /* of each of pp x vpp chunks; NULL: even, or given */
};

/* The splits of one pp, by rising vpp, then kind. No two have the same layers. */
struct splits {
    struct split *at;
    int count;
};

struct split_request {
    const struct model *model;
    int pp;
    int vpp; /* 0: any */
    enum chunk_space space;
    double head_layers; /* model_head_layers */
};

/* In the arena. Where none divides the layers: the even one, which breaks a rule of plans. */
struct splits splits_of(const struct split_request *request, struct arena *arena);

#endif
