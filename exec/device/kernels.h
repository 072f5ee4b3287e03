/* exec/device/kernels.h - the compute of a step: one function per kernel that a backend runs on a
 * stream.
 *
 * Arguments (kernels/host/args.h) are copied when the call is issued; the memory they point to must
 * stay valid until it has run. */
#ifndef EXEC_DEVICE_KERNELS_H
#define EXEC_DEVICE_KERNELS_H

#include "exec/device/device.h"
#include "kernels/host/args.h"
#include "models/op.h"

struct kernels; /* private to a backend: handles, tuned algorithms */

struct kernel_api {
    const char *name;
    /* `storage`: fp32, bf16 or fp16: type of the values in device memory. NULL with err. */
    struct kernels *(*open)(struct device *device, enum dtype storage, struct err *err);
    void (*close)(struct kernels *kernels);
    /* Scratch bytes that either direction of fused attention needs. */
    size_t (*flash_scratch_bytes)(const struct kernels *kernels, const struct attention *attention);
#define X(name, args) \
    void (*name)(struct kernels * kernels, struct stream * stream, const struct args *args);
    KERNELS(X)
    EXCHANGE_KERNELS(X) /* NULL when the backend lacks it */
    HOST_KERNELS(X)     /* likewise */
#undef X
};

extern const struct kernel_api kernels_host; /* on streams of device_host */

#endif
