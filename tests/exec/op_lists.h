/* tests/exec/op_lists.h - op lists (sequences of operations) for tests, and functions that query
 * them. */
#ifndef TESTS_EXEC_OP_LISTS_H
#define TESTS_EXEC_OP_LISTS_H

#include "models/layer.h"

/* Options for values in bf16 and gradients in fp32. With layer_flash only attention is fused; with
 * layer_unfused nothing is fused. */
extern const struct layer_options layer_flash, layer_unfused;

typedef struct ops build_fn(const struct model *model, const struct layer_dims *dims,
                            const struct layer_options *options, struct arena *arena);
enum { NUM_BUILDERS = 4 };
extern build_fn *const builders[NUM_BUILDERS]; /* the functions that build all forward lists */

int count_kind(struct ops ops, enum op_kind kind);

/* The first op with this name; the test fails if there is none. */
const struct op *op_named(struct ops ops, const char *name);
/* The index of the first op with this name, kind and pass; the test fails if there is none. */
int op_index(struct ops ops, const char *name, enum op_kind kind, enum op_pass pass);
/* The product that computes a gradient. */
const struct op *gradient_product(struct ops backward, const char *name, enum op_pass pass);

/* Fails the test unless every value that an op reads exists when the op runs. The value is the
 * list's input, or an earlier op has computed it, only once. A backward may also read values that
 * the forward keeps, and the gradient of the output. */
void check_operands(struct ops forward, struct ops backward);

/* Bytes kept from forward to backward. Selective recompute frees values that only the attention
 * core keeps. */
double activation_bytes(struct ops forward, bool selective);

#endif
