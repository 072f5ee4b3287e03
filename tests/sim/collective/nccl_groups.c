#include "tests/sim/collective/nccl_groups.h"

#define CALIBRATION .bandwidth_factor = 1, .latency_factor = 1
/* Channels of ring and tree, with the bandwidth of each in GB/s. */
#define CHANNELS(num, intra_gb, inter_gb) \
    .num_channels = (num), .intra_bytes_per_s = (intra_gb)*1e9, .inter_bytes_per_s = (inter_gb)*1e9
/* Channels of NVLS (NVSwitch with multicast), with the bandwidth of each in GB/s. */
#define NVLS(num, intra_gb, inter_gb)                                                     \
    .in_network = true, .nvls_channels = (num), .nvls_intra_bytes_per_s = (intra_gb)*1e9, \
    .nvls_inter_bytes_per_s = (inter_gb)*1e9

/* Links so fast that only NCCL's own caps bound a channel. */
#define UNCAPPED(nodes, arch_, amd)                                                        \
    {                                                                                      \
        .num_ranks = 8 * (nodes), .num_nodes = (nodes), .arch = (arch_), .amd_cpu = (amd), \
        .ll128 = true, CHANNELS(4, 200, 200), NVLS(4, 200, 200), CALIBRATION               \
    }

// clang-format off
const struct comm_group nccl_groups[NUM_NCCL_GROUPS] = {
    [H100_NODE] = { 8, 1, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, CHANNELS(24, 15, 15),
                    NVLS(8, 40, 60), CALIBRATION },
    [H100_4] = { 4, 1, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, .amd_cpu = true,
                 CHANNELS(24, 15, 15), NVLS(8, 40, 60), CALIBRATION },
    [H100_2_NODES] = { 16, 2, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, CHANNELS(8, 48, 48),
                       NVLS(8, 40, 48), CALIBRATION },
    [H100_16_NODES] = { 128, 16, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, CHANNELS(8, 48, 48),
                        NVLS(8, 40, 48), CALIBRATION },
    [H100_8_ALONE] = { 8, 8, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, CHANNELS(2, 24, 24),
                       CALIBRATION },
    [A100_NODE] = { 8, 1, ARCH_AMPERE, LINK_NVLINK, .ll128 = true, .amd_cpu = true,
                    CHANNELS(24, 10, 10), CALIBRATION },
    [A100_128_NODES] = { 1024, 128, ARCH_AMPERE, LINK_NVLINK, .ll128 = true,
                         CHANNELS(8, 24, 24), .amd_cpu = true, CALIBRATION },
    [B200_NODE] = { 8, 1, ARCH_BLACKWELL, LINK_NVLINK, .ll128 = true, CHANNELS(24, 30, 30),
                    NVLS(8, 90, 90), CALIBRATION },
    [B200_3_NODES] = { 24, 3, ARCH_BLACKWELL, LINK_NVLINK, .ll128 = true, .amd_cpu = true,
                       CHANNELS(16, 48, 46), NVLS(8, 90, 48), CALIBRATION },
    [V100_PCI] = { 4, 1, ARCH_VOLTA, LINK_PCI, CHANNELS(2, 12, 12), CALIBRATION },
    [V100_6_NODES] = { 24, 6, ARCH_VOLTA, LINK_PCI, CHANNELS(4, 10, 9), CALIBRATION },
    [UNEVEN] = { 7, 3, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, CHANNELS(2, 24, 24),
                 NVLS(4, 40, 24), CALIBRATION },
    [MILLION] = { 1000000, 125000, ARCH_HOPPER, LINK_NVLINK, CHANNELS(8, 48, 48),
                  NVLS(8, 40, 48), CALIBRATION },
    [OFF_RAILS] = { 8, 8, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, .crosses_rails = true,
                    CHANNELS(2, 24, 24), CALIBRATION },
    [SHARP_2_NODES] = { 16, 2, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, .sharp = true,
                        CHANNELS(8, 48, 48), NVLS(8, 40, 48), CALIBRATION },
    [SHARP_16_NODES] = { 128, 16, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, .sharp = true,
                         CHANNELS(8, 48, 48), NVLS(8, 40, 48), CALIBRATION },
    [SHARP_ALONE] = { 64, 64, ARCH_HOPPER, LINK_NVLINK, .ll128 = true, .sharp = true,
                      CHANNELS(2, 24, 24), CALIBRATION },
    [SHARP_A100] = { 512, 64, ARCH_AMPERE, LINK_NVLINK, .ll128 = true, .sharp = true,
                     CHANNELS(4, 24, 24), CALIBRATION },
    [UNCAPPED_VOLTA] = UNCAPPED(1, ARCH_VOLTA, false),
    [UNCAPPED_VOLTA + 1] = UNCAPPED(2, ARCH_VOLTA, false),
    [UNCAPPED_VOLTA + 2] = UNCAPPED(4, ARCH_VOLTA, false),
    [UNCAPPED_AMPERE] = UNCAPPED(1, ARCH_AMPERE, true),
    [UNCAPPED_AMPERE + 1] = UNCAPPED(2, ARCH_AMPERE, true),
    [UNCAPPED_AMPERE + 2] = UNCAPPED(4, ARCH_AMPERE, true),
    [UNCAPPED_HOPPER] = UNCAPPED(1, ARCH_HOPPER, false),
    [UNCAPPED_HOPPER + 1] = UNCAPPED(2, ARCH_HOPPER, false),
    [UNCAPPED_HOPPER + 2] = UNCAPPED(4, ARCH_HOPPER, true),
    [UNCAPPED_BLACKWELL] = UNCAPPED(1, ARCH_BLACKWELL, false),
    [UNCAPPED_BLACKWELL + 1] = UNCAPPED(2, ARCH_BLACKWELL, false),
    [UNCAPPED_BLACKWELL + 2] = UNCAPPED(4, ARCH_BLACKWELL, true),
};
// clang-format on

double nccl_time_s(const struct collective_algo *algo, const struct comm_group *group,
                   enum collective collective, enum protocol protocol, double bytes)
{
    double latency_s, bytes_per_s;
    algo->cost(group, collective, protocol, bytes, &latency_s, &bytes_per_s);
    return latency_s + bytes / bytes_per_s;
}
