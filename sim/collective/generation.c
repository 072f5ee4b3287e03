/* The table of GPU generations. */
#include "sim/collective/generation.h"

#include <stddef.h>

#define MIB(x)      ((x)*1024.0 * 1024.0)
#define GB_PER_S(x) ((x)*1e9)

/* Turing GPUs are "volta", as in NCCL's tables. */
const char *const arch_names[NUM_GPU_ARCHS + 1] = { "volta", "ampere", "hopper", "blackwell",
                                                    NULL };

const char *const attention_names[NUM_ATTENTION_KERNELS + 1] = { "unfused", "flash1", "flash2",
                                                                 "flash3", NULL };

/* FlashAttention 2 needs Ampere, FlashAttention 3 Hopper (flash-attention, README); Volta and
 * Turing can run neither. PyTorch allocates a workspace for each handle of cuBLAS, and each thread
 * has its own handle (aten/src/ATen/cuda/CublasHandlePool.cpp): one for forwards, one for
 * backwards. Each of these two workspaces has 32 MiB, which is the default on Hopper and the
 * setting of Megatron-LM's tests (CUBLAS_WORKSPACE_CONFIG=:4096:8). Transformer Engine's workspace
 * has 32 MiB on Hopper and newer and 4 MiB before. In three of Megatron-LM's tests the expected
 * memory after a step is that of the state, of known buffers and of these workspaces, plus 0 to 3
 * MiB; the values for two generations of GPUs differ by exactly 28 MiB. Before Blackwell, 8-bit
 * products read both operands along the inner dimension (cuBLAS, "TN" format). Multicast came with
 * Hopper's NVSwitch. Before Blackwell, Megatron-LM asks for one hardware queue
 * (megatron/training/arguments.py). Dispatchers were measured on Hopper and Blackwell only
 * (sim/cost/dispatcher.c). */
const struct generation generations[NUM_GPU_ARCHS] = {
    [ARCH_VOLTA] = {
        .attention = ATTENTION_UNFUSED,
        .workspace_bytes = MIB(68),
        .stream_workspace_bytes = MIB(4),
        .shares_queue = true,
        .dispatches_as = ARCH_HOPPER,
        .nccl = { .ll_bytes_per_s = { GB_PER_S(39.0), GB_PER_S(39.0), GB_PER_S(20.4) },
                  .ring_ll128_bytes_per_s = GB_PER_S(20.0),
                  .tree_bytes_per_s = { GB_PER_S(26.5), GB_PER_S(18.5), GB_PER_S(10.0) },
                  .tree_ll128_bytes_per_s = { GB_PER_S(20.0), GB_PER_S(20.0), GB_PER_S(20.0) },
                  .ring_plateau = 1.9,
                  .collnet_efficiency = 1 },
    },
    [ARCH_AMPERE] = {
        .attention = ATTENTION_FLASH2,
        .workspace_bytes = MIB(68),
        .stream_workspace_bytes = MIB(4),
        .shares_queue = true,
        .dispatches_as = ARCH_HOPPER,
        .nccl = { .ll_bytes_per_s = { GB_PER_S(87.7), GB_PER_S(22.5), GB_PER_S(19.0) },
                  .ring_ll128_bytes_per_s = GB_PER_S(20.0),
                  .tree_bytes_per_s = { GB_PER_S(24.0), GB_PER_S(23.6), GB_PER_S(17.8) },
                  .tree_ll128_bytes_per_s = { GB_PER_S(20.0), GB_PER_S(20.0), GB_PER_S(20.0) },
                  .ring_plateau = 1.4,
                  .collnet_efficiency = 1 },
    },
    [ARCH_HOPPER] = {
        .attention = ATTENTION_FLASH3,
        .workspace_bytes = MIB(96),
        .stream_workspace_bytes = MIB(32),
        .shares_queue = true,
        .dispatches_as = ARCH_HOPPER,
        .nccl = { .ll_bytes_per_s = { GB_PER_S(141.0), GB_PER_S(45.0), GB_PER_S(35.0) },
                  .ring_ll128_bytes_per_s = GB_PER_S(36.7),
                  .tree_bytes_per_s = { GB_PER_S(38.7), GB_PER_S(41.4), GB_PER_S(36.0) },
                  .tree_ll128_bytes_per_s = { GB_PER_S(36.7), GB_PER_S(36.7), GB_PER_S(29.0) },
                  .ring_plateau = 1.4,
                  .collnet_efficiency = 0.85,
                  .nvls_efficiency = 0.85,
                  .nvls_tree_bytes_per_s = { 0, GB_PER_S(57.7), GB_PER_S(45.5) } },
    },
    [ARCH_BLACKWELL] = {
        .attention = ATTENTION_FLASH3,
        .workspace_bytes = MIB(96),
        .stream_workspace_bytes = MIB(32),
        .reads_either_way = true,
        .scales_blocks = true,
        .dispatches_as = ARCH_BLACKWELL,
        .nccl = { .ll_bytes_per_s = { GB_PER_S(282.0), GB_PER_S(90.0), GB_PER_S(70.0) },
                  .ring_ll128_bytes_per_s = GB_PER_S(40.0),
                  .tree_bytes_per_s = { GB_PER_S(70.0), GB_PER_S(42.8), GB_PER_S(24.0) },
                  .tree_ll128_bytes_per_s = { GB_PER_S(55.6), GB_PER_S(31.67), GB_PER_S(20.0) },
                  .ring_plateau = 1.4,
                  .collnet_efficiency = 0.85,
                  .nvls_efficiency = 0.74,
                  .nvls_tree_bytes_per_s = { 0, GB_PER_S(96.0), GB_PER_S(80.0) } },
    },
};
