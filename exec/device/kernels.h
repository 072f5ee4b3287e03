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

struct kernels; /* backend data: handles, tuned algorithms */

struct kernel_api {
    const char *name;
    /* `storage` is the type of the values in device memory: fp32, bf16 or fp16. Returns NULL with
     * err. */
    struct kernels *(*open)(struct device *device, enum dtype storage, struct err *err);
    void (*close)(struct kernels *kernels);
    /* Scratch bytes that fused attention needs, in forward or backward. */
    size_t (*flash_scratch_bytes)(const struct kernels *kernels, const struct attention *attention);
#define X(name, args) \
    void (*name)(struct kernels * kernels, struct stream * stream, const struct args *args);
    KERNELS(X)
    EXCHANGE_KERNELS(X) /* NULL when the backend lacks it */
    HOST_KERNELS(X)     /* NULL when the backend lacks the kernel */
#undef X
};

extern const struct kernel_api kernels_host; /* on streams of device_host */

#endif
