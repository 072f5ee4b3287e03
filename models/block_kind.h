/* models/block_kind.h - the kinds of a model's transformer blocks, and their runs.
 *
 * Kinds differ in attention, in the feed-forward, and in widths (heads, feed-forward). Most models
 * have one kind. A run is a number of equal blocks in a row. The runs cover the model from the
 * first block on and repeat after the last run: { 1 of A, 1 of B } alternates A and B. */
#ifndef MODELS_BLOCK_KIND_H
#define MODELS_BLOCK_KIND_H

enum { MAX_BLOCK_KINDS = 4, MAX_BLOCK_RUNS = 128 };

/* How a block mixes tokens. Latent attention is not a kind: kv_lora applies to the whole model. */
enum attention_kind {
    ATTENTION_FULL,      /* each token attends to itself and all earlier tokens */
    ATTENTION_WINDOW,    /* each token attends to the last sliding_window tokens */
    ATTENTION_CHUNK,     /* each token attends to itself and the earlier tokens of its chunk of
                            attention_chunk tokens */
    ATTENTION_SPARSE,    /* each token attends to the index_topk tokens that the block's indexer
                            chooses (DeepSeek-V3.2) */
    ATTENTION_DELTA,     /* a gated delta rule with a state instead of attention (Qwen3-Next) */
    ATTENTION_LIGHTNING, /* linear attention with a gate and a norm (MiniMax-01) */
    ATTENTION_MAMBA,     /* the state-space scan of Mamba-2 instead of attention */
    ATTENTION_ENCODER,   /* each token attends to the whole sequence */
    ATTENTION_CROSS,     /* full attention, then attention to the encoder's output */
    ATTENTION_NONE,      /* the block has no attention */
    ATTENTION_BLOCKS,    /* the sequence is cut into blocks of attention_block tokens, and a token
                            attends to attention_blocks of them: its own up to itself, and earlier
                            ones (Child et al. 2019) */
    ATTENTION_LOW_RANK,  /* keys and values are projected along the sequence to attention_rank rows,
                            and each token attends to all of them (Wang et al. 2020, Linformer) */
};
enum feed_forward_kind {
    FEED_FORWARD_DENSE,
    FEED_FORWARD_EXPERTS, /* a router and experts, and the shared expert if there is one */
    FEED_FORWARD_NONE,
};
extern const char *const attention_kind_names[], *const feed_forward_names[]; /* NULL-terminated */

struct block_kind {
    int heads, kv_heads, head_dim, ffn; /* as in struct model */
    int attention;                      /* enum attention_kind */
    int feed_forward;                   /* enum feed_forward_kind */
    int gradient;                       /* enum block_gradient (models/trainable.h); derived */
};

struct block_run {
    int kind, layers;
};

/* The blocks of a model. No runs: all blocks are of one kind, with the widths in struct model. */
struct blocks {
    struct block_kind kinds[MAX_BLOCK_KINDS];
    struct block_run runs[MAX_BLOCK_RUNS];
    int num_kinds, num_runs;
};

#endif
