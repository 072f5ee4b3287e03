/* sim/cost/unfused.h - how a stack file says what ops cost that it does not fuse.
 *
 * { "norm": { "bytes": 36, "kernels": 8, ... }, ... }: an op that it leaves out costs what
 * PyTorch's and Megatron-LM's own kernels take. */
#ifndef SIM_COST_UNFUSED_H
#define SIM_COST_UNFUSED_H

#include "base/err.h"
#include "base/field.h"
#include "models/unfused.h"

#include <jansson.h>

extern const struct unfused_ops unfused_usual;

/* NULL: nothing is said. where = unfused.OP.KEY. */
bool unfused_read(const json_t *object, struct unfused_ops *out, struct err *err);
/* The ops that are not as usual; NULL: all are. */
json_t *unfused_write(const struct unfused_ops *unfused);

/* Keys of unfused, and of one op. */
extern const struct field unfused_fields[], unfused_op_fields[];
extern const size_t num_unfused_fields, num_unfused_op_fields;

#endif
