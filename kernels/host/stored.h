/* kernels/host/stored.h - every op of kernels/host/args.h, on values in the storage type. The
 * functions of the other headers compute in fp32, and results are rounded once when they are
 * written. These ops are the reference for other backends. */
#ifndef KERNELS_HOST_STORED_H
#define KERNELS_HOST_STORED_H

#include "kernels/host/args.h"
#include "kernels/host/blas.h"
#include "models/op.h"

struct host_kernels {
    struct blas blas;
    enum dtype storage;
};

#define X(name, args) void stored_##name(const struct host_kernels *kernels, const struct args *a);
KERNELS(X)
EXCHANGE_KERNELS(X)
HOST_KERNELS(X)
#undef X

#endif
