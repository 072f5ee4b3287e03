#include "models/model.h"

#include <stddef.h>

const char *const norm_names[] = { "layernorm", "rmsnorm", "layernorm_gain", NULL };
const char *const activation_names[] = { "gelu", "relu", "swiglu", "geglu", "relu2", NULL };
const char *const qk_norm_names[] = { "head", "each", "all", NULL };
const char *const position_names[] = { "learned",  "rotary",         "alibi", "none",
                                       "relative", "transformer_xl", NULL };
const char *const norm_place_names[] = { "before", "after", "around", "of_sum", NULL };
const char *const parallel_names[] = { "no", "own_norms", "one_norm", NULL };

/* Bounds are far above any model trained so far, but widths such as (heads + 2 kv_heads) head_dim
 * still fit in an int (see check_attention_width). If the fallback is "0", model_derive fills in
 * the value. */
#define F(member)    #member, .offset = offsetof(struct model, member)
#define TEXT(member) F(member), .size = sizeof(((struct model *)0)->member)
const struct field model_fields[] = {
    { TEXT(name), .kind = FIELD_TEXT, .doc = "Name; for a preset, that of its file." },
    { TEXT(summary), .kind = FIELD_TEXT, .fallback = "", .doc = "Description, in one sentence." },
    { TEXT(source), .kind = FIELD_TEXT, .fallback = "", .doc = "Where the numbers come from." },
    { F(layers), .kind = FIELD_INT, .min = 1, .max = 100000, .doc = "Transformer blocks." },
    { F(hidden), .kind = FIELD_INT, .min = 1, .max = 1e7, .doc = "Width of the residual stream." },
    { F(heads), .kind = FIELD_INT, .min = 1, .max = 1e6, .doc = "Query heads of a block." },
    { F(kv_heads), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Key and value heads; 0 or absent: as many as heads." },
    { F(head_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Width of one head; 0 or absent: hidden / heads." },
    { F(ffn), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Width of the feed-forward; 0 or absent: 4 hidden." },
    { F(vocab), .kind = FIELD_INT, .min = 1, .max = 1e8,
      .doc = "Tokens of the vocabulary, before padding for tensor parallelism." },
    { F(seq), .kind = FIELD_INT, .min = 1, .max = 1e8, .doc = "Usual training sequence, tokens." },
    { F(sliding_window), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Width of the attention window of some blocks, in tokens; 0: no window. Sequences "
             "longer than the window are predicted and run without it; the answer says so." },
    { F(max_positions), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Rows of the learned position table; 0 or absent: seq." },
    { F(norm), .kind = FIELD_NAME, .names = norm_names, .fallback = "layernorm",
      .doc = "Norm before attention, before the feed-forward and after the last block." },
    { F(activation), .kind = FIELD_NAME, .names = activation_names, .fallback = "gelu",
      .doc = "Activation of the feed-forward; swiglu and geglu are gated." },
    { F(positions), .kind = FIELD_NAME, .names = position_names, .fallback = "learned",
      .doc = "Encoding of a token's position. transformer_xl: every block projects the distances, "
             "and queries are multiplied by the result." },
    { F(rope_theta), .kind = FIELD_NUMBER, .min = 0, .max = 1e12, .fallback = "0",
      .doc = "Base of rotary angles; 0 or absent: 10000. Read by run." },
    { F(norm_epsilon), .kind = FIELD_NUMBER, .min = 0, .max = 1, .fallback = "0",
      .doc =
          "Added to the variance, or the mean square, of a norm; 0 or absent: 1e-5. Read by run." },
    { F(linear_bias), .kind = FIELD_BOOL, .fallback = "yes",
      .doc = "Biases on the projections of attention and feed-forward." },
    { F(qkv_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Biases on q, k and v even without linear_bias." },
    { F(qk_norm), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "RMSNorm over each head of q and k." },
    { F(embedding_norm), .kind = FIELD_BOOL, .fallback = "no", .doc = "Norm after the embedding." },
    { F(tied), .kind = FIELD_BOOL, .fallback = "yes",
      .doc = "The output head shares the token embedding." },
    { F(dropout), .kind = FIELD_NUMBER, .min = 0, .max = 0.99, .fallback = "0",
      .doc = "Dropout of hidden states and of attention; 0: no masks are kept." },
    { F(batch), .kind = FIELD_COUNT, .min = 0, .max = 1e9, .fallback = "0",
      .doc = "Usual global batch, sequences; 0: not stated." },
    { F(tokens), .kind = FIELD_QUANTITY, .quantity = QUANTITY_TOKENS, .min = 0, .max = 1e18,
      .fallback = "0 tok", .doc = "Usual token budget; 0: not stated." },
    { "document_mean", .offset = offsetof(struct model, documents.mean), .kind = FIELD_NUMBER,
      .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Mean length, in tokens, of the documents packed into a sequence, which do not attend "
             "to each other; 0: one document per sequence. --documents writes this key and the "
             "next three." },
    { "document_square", .offset = offsetof(struct model, documents.square), .kind = FIELD_NUMBER,
      .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Mean of the squared lengths divided by the square of the mean." },
    { "document_cube", .offset = offsetof(struct model, documents.cube), .kind = FIELD_NUMBER,
      .min = 0, .max = 1e16, .fallback = "0",
      .doc = "Mean of the lengths' third powers divided by the third power of the mean." },
    { "document_fourth", .offset = offsetof(struct model, documents.fourth), .kind = FIELD_NUMBER,
      .min = 0, .max = 1e24, .fallback = "0",
      .doc = "Mean of the lengths' fourth powers divided by the fourth power of the mean." },
    /* model_write writes this and later fields only if they differ from their fallback, which is
     * 0. */
    { F(attention), .kind = FIELD_NAME, .names = attention_kind_names, .fallback = "full",
      .doc = "Kind of attention or other token mixer of the blocks." },
    { F(attention_chunk), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "For attention of kind chunk: tokens per chunk; 0: no chunks." },
    { F(attention_block), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "For attention of kind blocks: tokens per block; 0: no blocks." },
    { F(attention_blocks), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Number of blocks to which a token attends, its own included." },
    { F(attention_rank), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "For attention of kind low_rank: rows to which keys and values are projected along "
             "the sequence." },
    { F(sinks), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "A learned score per query head that takes part in the softmax beside the keys' "
             "scores (attention sink)." },
    { F(attention_gate), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "The output of attention is gated; a linear layer as wide as q computes the gates." },
    { F(out_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Bias on the output of attention even without linear_bias." },
    { F(ffn_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Biases of a dense feed-forward even without linear_bias." },
    { F(head_bias), .kind = FIELD_BOOL, .fallback = "no", .doc = "Bias of the output head." },
    { F(head_transform), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "A product hidden -> hidden with bias before the last norm." },
    { F(token_types), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Rows of a table of token types, which is added to the embedding." },
    { F(norm_place), .kind = FIELD_NAME, .names = norm_place_names, .fallback = "before",
      .doc =
          "Norms of attention and of the feed-forward: before each, after it, both, or of its sum "
          "with the residual stream." },
    { F(parallel), .kind = FIELD_NAME, .names = parallel_names, .fallback = "no",
      .doc = "Attention and feed-forward read the same input, with one norm each or one norm for "
             "both." },
    { F(relative_buckets), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Relative positions: number of ranges of distance, each with a bias per head." },
    { F(qk_norm_kind), .kind = FIELD_NAME, .names = qk_norm_names, .fallback = "head",
      .doc = "Gains of qk_norm: head: shared by all heads; each: separate for each head; all: one "
             "norm over all heads." },
    { F(experts), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Experts of a block; 0: a dense feed-forward." },
    { F(topk), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Number of experts to which a token is routed." },
    { F(expert_ffn), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Width of an expert; 0 or absent: ffn." },
    { F(shared_ffn), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Total width of the shared experts, through which every token passes; 0: none." },
    { F(first_dense), .kind = FIELD_INT, .min = 0, .max = 100000, .fallback = "0",
      .doc = "Number of first blocks that have a dense feed-forward in place of experts." },
    { F(moe_step), .kind = FIELD_INT, .min = 0, .max = 100000, .fallback = "0",
      .doc = "The last of every n blocks has experts; this is n. 0 or 1: all blocks have them." },
    { F(expert_groups), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Number of groups of experts; the router first chooses groups. 0: no groups." },
    { F(topk_groups), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Number of groups from which a token's experts are chosen; 0: all." },
    { F(shared_gate), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "A product hidden -> 1 scales the shared experts' output." },
    { F(router_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Trained biases of the router." },
    { "routing", .offset = offsetof(struct model, routing.kind), .kind = FIELD_NAME,
      .names = routing_names, .fallback = "balanced",
      .doc = "Spread of tokens over experts: equal loads; random; random with experts whose "
             "popularity has the relative standard deviation routing_cv; or such that the most "
             "loaded rank has routing_factor times the mean load. --routing writes this key and "
             "the next two." },
    { "routing_cv", .offset = offsetof(struct model, routing.cv), .kind = FIELD_NUMBER, .min = 0,
      .max = 10, .fallback = "0",
      .doc = "Standard deviation of experts' popularity divided by its mean." },
    { "routing_factor", .offset = offsetof(struct model, routing.factor), .kind = FIELD_NUMBER,
      .min = 0, .max = 1e6, .fallback = "0", .doc = "Largest load of a rank divided by the mean." },
    { F(score_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Biases that are added to the scores when experts are chosen; they have no gradient "
             "and no optimizer state." },
    { F(expert_bias), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "Biases on the projections of experts." },
    { F(q_lora), .kind = FIELD_INT, .min = 0, .max = 1e7, .fallback = "0",
      .doc = "Latent attention: channels from which q is computed; 0: hidden." },
    { F(kv_lora), .kind = FIELD_INT, .min = 0, .max = 1e7, .fallback = "0",
      .doc = "Latent attention: channels from which k and v are computed; 0: plain attention." },
    { F(qk_nope_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Latent attention: channels of a head of q and k without rotary angles." },
    { F(qk_rope_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc =
          "Latent attention: channels of a head with rotary angles; all heads share those of k." },
    { F(v_head_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Latent attention: channels of a head of v." },
    { F(index_heads), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Sparse attention: heads of the indexer that chooses keys." },
    { F(index_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Sparse attention: width of a head of the indexer." },
    { F(index_topk), .kind = FIELD_INT, .min = 0, .max = 1e8, .fallback = "0",
      .doc = "Sparse attention: number of keys that a token attends to." },
    { F(linear_key_heads), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Delta rule: heads of keys. Mamba: groups of B and C." },
    { F(linear_value_heads), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Delta rule: heads of values. Mamba: heads." },
    { F(linear_key_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Delta rule: width of a key. Mamba: size of the state." },
    { F(linear_value_dim), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Delta rule: width of a value. Mamba: width of a head." },
    { F(linear_conv), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc = "Width, in tokens, of the convolution before the mixer." },
    { F(mtp), .kind = FIELD_INT, .min = 0, .max = 1000, .fallback = "0",
      .doc =
          "Modules for multi-token prediction; their parameters are not counted in the model's." },
    { F(lora), .kind = FIELD_INT, .min = 0, .max = 1e6, .fallback = "0",
      .doc =
          "Rank of the adapters of linear layers; then only adapters are trained. 0: no adapters. "
          "--train writes this key and the next two." },
    { F(trained_layers), .kind = FIELD_INT, .min = 0, .max = 100000, .fallback = "0",
      .doc = "Number of last blocks that are trained, with the head; 0: all blocks are trained." },
    { TEXT(trained), .kind = FIELD_TEXT, .fallback = "",
      .doc = "Names of the weights that are trained or, with lora, of the layers that have "
             "adapters. Names are separated by commas, and * stands for any text; empty: all." },
    { F(reference), .kind = FIELD_BOOL, .fallback = "no",
      .doc = "An untrained reference model also runs forward over each batch." },
    { .name = "blocks",
      .kind = FIELD_OTHER,
      .fallback = "",
      .doc = "Runs of blocks of several kinds, repeated until there are `layers` blocks; absent: "
             "all blocks are equal." },
    { .name = "format", .kind = FIELD_OTHER, .fallback = "1", .doc = "Version of this form: 1." },
    { .name = "aliases", .kind = FIELD_OTHER, .fallback = "", .doc = "Other names of a preset." },
    { .name = "sources",
      .kind = FIELD_OTHER,
      .fallback = "",
      .doc = "Sources of single keys, if they differ from `source`." },
    { .name = "params",
      .kind = FIELD_OTHER,
      .fallback = "",
      .doc = "Written for readers, ignored when read." },
    { .name = "active_params",
      .kind = FIELD_OTHER,
      .fallback = "",
      .doc = "Written for readers, ignored when read." },
    { .name = "mtp_params",
      .kind = FIELD_OTHER,
      .fallback = "",
      .doc =
          "Parameters of the mtp modules, which params leaves out; written, ignored when read." },
};
const size_t num_model_fields = sizeof model_fields / sizeof model_fields[0];
#undef TEXT
#undef F

bool model_is_gated(const struct model *model)
{
    return model->activation == ACTIVATION_SWIGLU || model->activation == ACTIVATION_GEGLU;
}
