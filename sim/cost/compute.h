/* sim/cost/compute.h - seconds of one op on one GPU.
 *
 * A roofline with the profile's efficiencies: products by tiles and waves, attention by its
 * kernel's generation, everything else by its traffic. Pure functions. */
#ifndef SIM_COST_COMPUTE_H
#define SIM_COST_COMPUTE_H

#include "sim/cost/hardware.h"

/* m x n from k, `bytes` of traffic beside the multiplication. */
double gemm_s(const struct gpu *gpu, const struct profile *profile, enum dtype dtype, double m,
              double n, double k, double bytes);

/* Share of a type's peak that long products reach. */
double gemm_efficiency(const struct profile *profile, enum dtype dtype);

/* A kernel or `kernels` of them that only move `bytes`. */
double traffic_s(const struct gpu *gpu, const struct profile *profile, double bytes,
                 double kernels);

/* An op as it was measured; below 0 where the profile has no table of its kind. */
double measured_op_s(const struct profile *profile, const struct op *op);

/* Any op but a collective; marks take no time. `attention` is the kernel behind flash attention. */
double op_s(const struct gpu *gpu, const struct profile *profile, enum attention_kernel attention,
            const struct op *op);

#endif
