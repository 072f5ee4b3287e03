/* exec/comm/reduce.h - sums and maxima of arrays, element by element, without side effects. */
#ifndef EXEC_COMM_REDUCE_H
#define EXEC_COMM_REDUCE_H

#include "exec/comm/comm.h"

/* out[i] = parts[0][i] + parts[1][i] + ..., in this order; bf16 and fp16 are summed in fp32 and
 * rounded once, to nearest even. `out` may be one of the parts. num_parts >= 1; not for BYTES. */
void reduce_parts(enum element element, enum reduction reduction, const void *const *parts,
                  int num_parts, void *out, size_t count);

#endif
