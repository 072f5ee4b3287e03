/* sim/campaign/checkpoint.h - the bytes of a plan's checkpoint, and how long it takes to copy them
 * to the host, to a peer's memory and to storage.
 *
 * A checkpoint holds each parameter's weight and optimizer state once: 2 + 12 bytes with Adam in
 * bf16. Ranks that hold the same state write equal parts of it. */
#ifndef SIM_CAMPAIGN_CHECKPOINT_H
#define SIM_CAMPAIGN_CHECKPOINT_H

#include "sim/cost/hardware.h"
#include "sim/memory/memory.h"

struct checkpoint {
    double bytes;
    double storage_bytes_per_s; /* storage bandwidth of all hosts together */
    double copy_s;              /* time to copy from GPU to host, on the slowest rank */
    double storage_s;           /* time to write to storage, or to read from it */
    /* time to copy from each host to its peer's memory over all of its network cards; 0: there is
     * no peer */
    double peer_s;
};

/* `stages` has the memory of each pipeline stage of the plan. */
struct checkpoint checkpoint_of(const struct system *system, const struct model *model,
                                const struct plan *plan, const struct stage_memory *stages);

#endif
