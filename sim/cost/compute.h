/* sim/cost/compute.h - seconds of one op on one GPU.
 *
 * The model is a roofline with the profile's efficiencies. Matrix products are timed by tiles and
 * waves of thread blocks, attention by the rate of its kernel, all other ops by their memory
 * traffic. All functions are pure. */
#ifndef SIM_COST_COMPUTE_H
#define SIM_COST_COMPUTE_H

#include "sim/cost/hardware.h"

/* Seconds of a product with an m x n result and inner dimension k, with `bytes` of memory
 * traffic. */
double gemm_s(const struct gpu *gpu, const struct profile *profile, enum dtype dtype, double m,
              double n, double k, double bytes);

/* Share of a data type's peak rate that products with a long inner dimension reach. */
double gemm_efficiency(const struct profile *profile, enum dtype dtype);

/* Seconds of `kernels` kernels that only read and write memory, `bytes` in total. */
double traffic_s(const struct gpu *gpu, const struct profile *profile, double bytes,
                 double kernels);

/* Measured seconds of an op; negative if the profile has no table for its kind. */
double measured_op_s(const struct profile *profile, const struct op *op);

/* Seconds of an op on the GPU. It is 0 for collectives and for marks, the placeholders of
 * collectives. `attention` is the kernel that runs flash attention. */
double op_s(const struct gpu *gpu, const struct profile *profile, enum attention_kernel attention,
            const struct op *op);

#endif
