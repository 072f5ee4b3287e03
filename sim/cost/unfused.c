/* Memory traffic and number of kernels of ops that a stack does not fuse. A stack is the training
 * software, as described by a file; the file may replace the values here. */
#include "sim/cost/unfused.h"

#include "base/length.h"

#include <string.h>

/* Memory traffic is the sum over the kernels that run; each reads or writes each of its values
 * once. In Megatron-LM's FusedScaleMaskSoftmax.forward_torch_softmax fp16 is widened (6 bytes),
 * scaled, masked, normalised (8 each) and narrowed (6), and two kernels make the mask. The backward
 * runs the same kernels, and its softmax also reads the forward's output. Megatron-LM's cross
 * entropy (core/tensor_parallel/cross_entropy.py) widens, finds the maximum, subtracts it,
 * exponentiates and sums. PyTorch's elementwise kernels and their copies are listed from memory:
 * gelu with its bias; silu with its product; rotary (apply_rotary_pos_emb: negate half,
 * concatenate, times cosine plus times sine), for queries and for keys; and a norm (square, mean,
 * root, product, scale). The values kept for the backward were traced (tests/fixtures/traces). The
 * softmax keeps its fp32 probabilities in addition to the narrowed ones. The product of a gate
 * keeps silu's output in addition to both inputs. A norm in PyTorch's own kernels keeps the widened
 * input and the normalised values instead of its input: 4 + 2 - 2 bytes. */
const struct unfused_ops unfused_usual = { {
    [UNFUSED_NORM] = { .values = 6,
                       .kernels = 5,
                       .backward_values = 10,
                       .backward_kernels = 10,
                       .kept_bytes = 4 },
    [UNFUSED_ROTARY] = { .values = 8, .kernels = 10, .backward_values = 8, .backward_kernels = 10 },
    [UNFUSED_SOFTMAX] = { .bytes = 36,
                          .kernels = 7,
                          .backward_bytes = 40,
                          .backward_kernels = 5,
                          .kept_bytes = 4 },
    [UNFUSED_ACTIVATION] = { .values = 5,
                             .kernels = 2,
                             .backward_values = 6,
                             .backward_kernels = 2 },
    [UNFUSED_GATE] = { .values = 7,
                       .kernels = 3,
                       .backward_values = 9,
                       .backward_kernels = 3,
                       .kept_values = 1 },
    [UNFUSED_CROSS_ENTROPY] = { .values = 1,
                                .bytes = 28,
                                .kernels = 12,
                                .backward_values = 1,
                                .backward_bytes = 16,
                                .backward_kernels = 5 },
} };

#define OP(key, id)                                           \
    .name = key, .kind = FIELD_OTHER, .fallback = "as usual", \
    .offset = sizeof(struct unfused) * (id)
#define COUNT(member)                                                                            \
    .name = #member, .kind = FIELD_NUMBER, .offset = offsetof(struct unfused, member), .min = 0, \
    .max = 1000, .fallback = "0"

// clang-format off
const struct field unfused_fields[] = {
    { OP("norm", UNFUSED_NORM), .doc = "A norm, for each value that it writes." },
    { OP("rotary", UNFUSED_ROTARY), .doc = "Rotary embedding, for each value of queries and keys." },
    { OP("softmax", UNFUSED_SOFTMAX), .doc = "Scale, mask and softmax, for each score." },
    { OP("activation", UNFUSED_ACTIVATION), .doc = "Bias and activation, for each value made." },
    { OP("gated_activation", UNFUSED_GATE),
      .doc = "Activation function and its product with the other half, for each value written." },
    { OP("cross_entropy", UNFUSED_CROSS_ENTROPY), .doc = "Softmax and loss, for each logit." },
    { OP("expert_bias", UNFUSED_EXPERT_BIAS),
      .doc = "Bias of the experts' first product, for each value made; usually the product adds it." },
    { OP("expert_share_bias", UNFUSED_EXPERT_SHARE_BIAS),
      .doc = "Bias of the experts' second product, multiplied by the router's weight of the row; "
             "usually the product adds it." },
};
const struct field unfused_op_fields[] = {
    { COUNT(values), .doc = "Number of values, in the compute type, that all kernels of the forward "
                            "read and write." },
    { COUNT(bytes), .doc = "Bytes of wider values, counted in the same way." },
    { COUNT(kernels), .doc = "Number of kernels that the forward launches." },
    { COUNT(backward_values), .doc = "The same number of values for the backward." },
    { COUNT(backward_bytes), .doc = "The same number of bytes for the backward." },
    { COUNT(backward_kernels), .doc = "The same number of kernels for the backward." },
    { COUNT(kept_values), .doc = "Number of values, in the compute type, that these kernels keep "
                                 "for the backward in addition to those that one fused kernel "
                                 "keeps." },
    { COUNT(kept_bytes), .doc = "Bytes of wider values, counted in the same way." },
};
// clang-format on
const size_t num_unfused_fields = LENGTH(unfused_fields);
const size_t num_unfused_op_fields = LENGTH(unfused_op_fields);

static bool read_op(const json_t *object, const char *key, struct unfused *out, struct err *err)
{
    memset(out, 0, sizeof *out);
    if (!fields_read(unfused_op_fields, num_unfused_op_fields, object, out, err))
        return err_within(err, key);
    if (out->kernels >= 1 && out->backward_kernels >= 1)
        return true;
    err_set(err, ERR_INPUT, out->kernels >= 1 ? "backward_kernels" : "kernels",
            "expected 1 or more");
    return err_within(err, key);
}

bool unfused_read(const json_t *object, struct unfused_ops *out, struct err *err)
{
    *out = unfused_usual;
    if (!object)
        return true;
    struct unfused_ops ignored;
    if (!fields_read(unfused_fields, num_unfused_fields, object, &ignored, err))
        return err_within(err, "unfused");
    for (size_t i = 0; i < num_unfused_fields; i++) {
        const json_t *op = json_object_get(object, unfused_fields[i].name);
        if (op && !read_op(op, unfused_fields[i].name, &out->of[i], err))
            return err_within(err, "unfused");
    }
    return true;
}

static bool are_equal(const struct unfused *a, const struct unfused *b)
{
    return a->values == b->values && a->bytes == b->bytes && a->kernels == b->kernels &&
           a->backward_values == b->backward_values && a->backward_bytes == b->backward_bytes &&
           a->backward_kernels == b->backward_kernels && a->kept_values == b->kept_values &&
           a->kept_bytes == b->kept_bytes;
}

json_t *unfused_write(const struct unfused_ops *unfused)
{
    json_t *object = NULL;
    for (size_t i = 0; i < num_unfused_fields; i++) {
        if (are_equal(&unfused->of[i], &unfused_usual.of[i]))
            continue;
        object = object ? object : json_object();
        json_object_set_new(
            object, unfused_fields[i].name,
            fields_write(unfused_op_fields, num_unfused_op_fields, &unfused->of[i]));
    }
    return object;
}
