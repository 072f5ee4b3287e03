/* tests/exec/op_lists.h - lists of ops, and what tests ask of them. */
#ifndef TESTS_EXEC_OP_LISTS_H
#define TESTS_EXEC_OP_LISTS_H

#include "models/layer.h"

/* In bf16 with gradients in fp32, nothing fused but attention, and not even that. */
extern const struct layer_options layer_flash, layer_unfused;

typedef struct ops build_fn(const struct model *model, const struct layer_dims *dims,
                            const struct layer_options *options, struct arena *arena);
enum { NUM_BUILDERS = 4 };
extern build_fn *const builders[NUM_BUILDERS]; /* of every forward list */

int count_kind(struct ops ops, enum op_kind kind);

/* The first of a name; one that is not there fails the test. */
const struct op *op_named(struct ops ops, const char *name);
/* The index of the first of a name, kind and pass, likewise. */
int op_index(struct ops ops, const char *name, enum op_kind kind, enum op_pass pass);
/* The product that makes a gradient. */
const struct op *gradient_product(struct ops backward, const char *name, enum op_pass pass);

/* Fails the test unless every value that an op reads is there when it runs: made once, before it,
 * or come from the list before; for a backward, kept by the forward or come from behind. */
void check_operands(struct ops forward, struct ops backward);

/* Kept from forward to backward. Selective recompute drops what only the attention core keeps. */
double activation_bytes(struct ops forward, bool selective);

#endif
