/* sim/cost/unfused.h - how the file of a stack (training software) states the cost of ops that the
 * software does not fuse.
 *
 * { "norm": { "bytes": 36, "kernels": 8, ... }, ... }: an op that the file leaves out costs as much
 * as with PyTorch's and Megatron-LM's own kernels. */
#ifndef SIM_COST_UNFUSED_H
#define SIM_COST_UNFUSED_H

#include "base/err.h"
#include "base/field.h"
#include "models/unfused.h"

#include <jansson.h>

extern const struct unfused_ops unfused_usual;

/* If `object` is NULL, all ops have their defaults. If reading fails, err->where is
 * unfused.OP.KEY. */
bool unfused_read(const json_t *object, struct unfused_ops *out, struct err *err);
/* Writes only the ops that differ from the default; NULL if none do. */
json_t *unfused_write(const struct unfused_ops *unfused);

/* Keys of "unfused", and of one op in it. */
extern const struct field unfused_fields[], unfused_op_fields[];
extern const size_t num_unfused_fields, num_unfused_op_fields;

#endif
