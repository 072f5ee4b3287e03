/* sim/cost/compute.h - seconds of one op on one GPU.
 *
 * The model is a roofline with the profile's efficiencies. Products are timed by tiles and waves,
 * attention by its kernel's generation, everything else by its memory traffic. All functions are
 * pure. */
#ifndef SIM_COST_COMPUTE_H
#define SIM_COST_COMPUTE_H

#include "sim/cost/hardware.h"

/* Seconds of a product with an m x n result and inner dimension k, with `bytes` of memory
 * traffic. */
double gemm_s(const struct gpu *gpu, const struct profile *profile, enum dtype dtype, double m,
              double n, double k, double bytes);

/* Share of a type's peak that products with a long inner dimension reach. */
double gemm_efficiency(const struct profile *profile, enum dtype dtype);

/* Seconds of `kernels` kernels that together only move `bytes`. */
double traffic_s(const struct gpu *gpu, const struct profile *profile, double bytes,
                 double kernels);

/* Measured seconds of an op; negative when the profile has no table of its kind. */
double measured_op_s(const struct profile *profile, const struct op *op);

/* Seconds of an op on the GPU. It is 0 for collectives and for the marks that stand for them.
 * `attention` is the kernel that runs flash attention. */
double op_s(const struct gpu *gpu, const struct profile *profile, enum attention_kernel attention,
            const struct op *op);

#endif
