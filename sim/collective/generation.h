/* sim/collective/generation.h - properties that differ between generations of GPUs, one row per
 * generation.
 *
 * A GPU's file names its generation and has its own rates, sizes and power. To add a generation,
 * add a name to the enum and a row in generation.c. */
#ifndef SIM_COLLECTIVE_GENERATION_H
#define SIM_COLLECTIVE_GENERATION_H

#include <stdbool.h>

enum gpu_arch { ARCH_VOLTA, ARCH_AMPERE, ARCH_HOPPER, ARCH_BLACKWELL, NUM_GPU_ARCHS };
extern const char *const arch_names[NUM_GPU_ARCHS + 1]; /* such as "volta"; NULL-terminated */

enum attention_kernel {
    ATTENTION_UNFUSED,
    ATTENTION_FLASH1,
    ATTENTION_FLASH2,
    ATTENTION_FLASH3,
    NUM_ATTENTION_KERNELS
};
extern const char *const attention_names[NUM_ATTENTION_KERNELS + 1]; /* such as "flash1" */

/* NCCL's tables distinguish groups on one node, on two, and on more. */
enum { NUM_NODE_CLASSES = 3 };

/* The largest bandwidths of a channel in NCCL 2.30.7's own model (src/graph/tuning.cc; each comment
 * has NCCL's name). */
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
    /* the newest fused attention kernel it can run; UNFUSED: none */
    enum attention_kernel attention;
    double workspace_bytes; /* bytes of cuBLAS's two workspaces and Transformer Engine's */
    /* Transformer Engine's workspace for each stream on which it runs experts' products */
    double stream_workspace_bytes;
    /* whether 8-bit products can read one copy of an operand both along rows and along columns */
    bool reads_either_way;
    bool scales_blocks; /* whether the GPU's matrix units apply one scale per block of values */
    bool shares_queue;  /* kernels and transfers overlap only in one hardware queue:
                           CUDA_DEVICE_MAX_CONNECTIONS=1 */
    /* the generation whose measured rates of expert dispatch are used */
    enum gpu_arch dispatches_as;
    struct nccl_rates nccl;
};
extern const struct generation generations[NUM_GPU_ARCHS]; /* indexed by enum gpu_arch */

#endif
