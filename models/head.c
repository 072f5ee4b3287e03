#include "models/layer_part.h"

/* Final norm, logits, loss. The logits themselves are not counted as saved: they live once, not for
 * each microbatch in flight, and sim/cost/memory adds them for the microbatch at the loss. The loss
 * over a split vocabulary needs the maximum, the sum and the target's logit of each token. */
struct ops head_forward(const struct model *model, const struct layer_dims *dims,
                        const struct layer_options *options, struct arena *arena)
{
    struct builder b = layer_begin(model, dims, options, arena);
    add_norm(&b, "final_norm", dims->norm_tokens, dims->hidden);
    add_mark(&b, OP_TENSOR_ENTER, "head_enter");
    add_gemm(&b, "logits", dims->vocab, dims->hidden, true, false);
    struct op *reduce = add_op(&b, OP_ALL_REDUCE, "loss_reduce", dims->tokens, 3);
    reduce->comm_bytes = 3 * 4 * dims->tokens;
    reduce->kernels = 3;
    struct op *loss = add_op(&b, OP_CROSS_ENTROPY, "cross_entropy", dims->tokens, dims->vocab);
    bool one_kernel = is_fused(&b, FUSION_CROSS_ENTROPY);
    double logits = loss->m * loss->n;
    loss->bytes = logits * (one_kernel ? b.element_bytes : b.element_bytes + 28);
    loss->backward_bytes = logits * (one_kernel ? 2 * b.element_bytes : b.element_bytes + 16);
    loss->kernels = one_kernel ? 2 : 12;
    loss->backward_kernels = one_kernel ? 1 : 5;
    return b.ops;
}
