/* search/splits.h - ways to divide the layers of a model over the chunks of a pipeline, and to
 * place its MTP modules (multi-token prediction).
 *
 * These are the splits that Megatron-Core's arguments can express, or layout strings with nearly
 * equal stages. All other divisions, which need the number of layers of every stage, are searched
 * by search/uneven. */
#ifndef SEARCH_SPLITS_H
#define SEARCH_SPLITS_H

#include "base/arena.h"
#include "models/model.h"
#include "sim/plan/plan.h"

enum chunk_space { CHUNKS_MEGATRON, CHUNKS_EVEN, NUM_CHUNK_SPACES };

/* Kinds of splits. k is the largest number of layers in a chunk. */
enum split_kind {
    SPLIT_EVEN, /* k in each chunk */
    /* the embedding counts as a layer: k - 1 in the first chunk
     * (account_for_embedding_in_pipeline_split) */
    SPLIT_EMBEDDING,
    SPLIT_LOSS, /* the loss counts as a layer: k - 1 in the last chunk (account_for_loss_in_...) */
    SPLIT_BOTH, /* embedding and loss both count as layers */
    /* the loss counts as two layers: k - 2 in the last chunk. This split and those marked with
     * (h) are listed only if head and loss have at least half the FLOPs of a layer */
    SPLIT_LOSS_TWICE,
    /* as many chunks as necessary have one layer less: the last chunk, then the first, the second
     * and so on; used only if no split above divides the layers over these stages */
    SPLIT_NEARLY,
    /* the first and the last stage have different numbers of layers from the others, and the last
     * stage, with the head, takes no longer than the others (num_layers_in_first_pipeline_stage,
     * ..._last_...) */
    SPLIT_LIGHT_LAST,
    SPLIT_LIGHTER_LAST, /* the same with one layer less in each chunk of the last stage (h) */
    /* equal chunks, but one layer of the last chunk moves to a stage in the middle (h) */
    SPLIT_ONE_MOVED,
    /* The next three splits are for models with MTP modules. All other splits have these modules in
     * the chunk of the head and the last layers. In the next three splits, the chunks with layers
     * differ by at most one layer, where a module counts as a layer. In Megatron's layout strings,
     * t is a layer, m a module, L the loss and | begins a chunk. */
    SPLIT_ENDS_ALONE,  /* "|mL": modules and head are a chunk without layers */
    SPLIT_HEAD_ALONE,  /* "tm|L": the head is a chunk without layers; the modules are in the chunk
                          before it */
    SPLIT_LATER_ALONE, /* "|m|L": modules and head are two chunks without layers */
    SPLIT_GIVEN,       /* the base plan's list */
    SPLIT_ALSO,        /* the list of a plan that is added to the space */
    NUM_SPLIT_KINDS
};

struct split {
    int vpp;
    enum split_kind kind;
    const int *layers; /* layers of each of pp x vpp chunks; NULL: even, or given */
    enum mtp_place mtp_place;
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

/* The splits, in the arena. If none divides the layers, the list has only the even split, which
 * breaks a rule. */
struct splits splits_of(const struct split_request *request, struct arena *arena);

#endif
