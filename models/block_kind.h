/* models/block_kind.h - the kinds of a model's transformer blocks, and their runs.
 *
 * Kinds differ in what mixes tokens, in the feed-forward, and in widths (heads, feed-forward); most
 * models have one kind. Runs of equal blocks follow each other from the first block and repeat
 * after the last run: { 1 of A, 1 of B } alternates A and B. */
#ifndef MODELS_BLOCK_KIND_H
#define MODELS_BLOCK_KIND_H

enum { MAX_BLOCK_KINDS = 4, MAX_BLOCK_RUNS = 128 };

/* What mixes the tokens of a block. Latent attention (kv_lora) is of the whole model. */
enum attention_kind {
    ATTENTION_FULL,      /* each token sees all before it */
    ATTENTION_WINDOW,    /* the last sliding_window of them */
    ATTENTION_CHUNK,     /* those of its own chunk of attention_chunk tokens */
    ATTENTION_SPARSE,    /* the index_topk that an indexer of its own chooses (DeepSeek-V3.2) */
    ATTENTION_DELTA,     /* none, but a gated delta rule with a state (Qwen3-Next) */
    ATTENTION_LIGHTNING, /* none, but linear attention with a gate and a norm (MiniMax-01) */
    ATTENTION_MAMBA,     /* none, but a state-space scan, Mamba-2 */
    ATTENTION_ENCODER,   /* each token sees all of the sequence */
    ATTENTION_CROSS,     /* full, and behind it attention to the encoder's output */
    ATTENTION_NONE,      /* the block has no attention */
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
    int gradient;                       /* enum block_gradient (models/trained.h); derived */
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

#endif
