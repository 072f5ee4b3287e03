/* sim/cost/generation.h - what differs between generations of GPUs, one row each.
 *
 * A GPU's file names its generation; rates, sizes and power are the file's own. A new generation is
 * a name in the enum and a row in generation.c. */
#ifndef SIM_COST_GENERATION_H
#define SIM_COST_GENERATION_H

#include <stdbool.h>

enum gpu_arch { ARCH_VOLTA, ARCH_AMPERE, ARCH_HOPPER, ARCH_BLACKWELL, NUM_GPU_ARCHS };
extern const char *const arch_names[NUM_GPU_ARCHS + 1]; /* "volta" ..., NULL-terminated */

enum attention_kernel {
    ATTENTION_UNFUSED,
    ATTENTION_FLASH1,
    ATTENTION_FLASH2,
    ATTENTION_FLASH3,
    NUM_ATTENTION_KERNELS
};
extern const char *const attention_names[NUM_ATTENTION_KERNELS + 1]; /* "unfused", "flash1" ... */

/* NCCL's tables distinguish groups on one node, on two, and on more. */
enum { NUM_NODE_CLASSES = 3 };

/* The most that a channel carries in NCCL 2.30.7's own model (src/graph/tuning.cc; NCCL's names
 * stand beside). */
struct nccl_rates {
    double ll_bytes_per_s[NUM_NODE_CLASSES];         /* llMaxBws */
    double ring_ll128_bytes_per_s;                   /* perChMaxRingLL128Bws */
    double tree_bytes_per_s[NUM_NODE_CLASSES];       /* perChMaxTreeBws */
    double tree_ll128_bytes_per_s[NUM_NODE_CLASSES]; /* perChMaxTreeLL128Bws */
    double ring_plateau;       /* factor on a ring's latency between nodes: ring.c */
    double collnet_efficiency; /* share of the NICs' rate that CollNet's direct algorithm reaches */
    double nvls_efficiency;    /* share of a channel's rate that multicast reaches; 0: no NVSwitch
                                  multicast */
    double nvls_tree_bytes_per_s[NUM_NODE_CLASSES]; /* perChMaxNVLSTreeBws */
};

struct generation {
    enum attention_kernel attention; /* the newest fused kernel it can run; UNFUSED: none */
    double workspace_bytes;          /* of cuBLAS and Transformer Engine */
    bool reads_either_way;           /* 8-bit products read one copy along rows or columns */
    bool scales_blocks;              /* its matrix units apply one scale per block of values */
    bool shares_queue;               /* kernels and transfers overlap only in one hardware queue:
                                        CUDA_DEVICE_MAX_CONNECTIONS=1 */
    enum gpu_arch dispatches_as;     /* whose measured rates of experts' rows stand for it */
    struct nccl_rates nccl;
};
extern const struct generation generations[NUM_GPU_ARCHS]; /* indexed by enum gpu_arch */

#endif
