/* sim/campaign/checkpoint.h - the bytes of a plan's checkpoint, and how long each way takes.
 *
 * A checkpoint holds each parameter's weight and optimizer state once: 2 + 12 bytes with Adam in
 * bf16. Ranks that hold the same state write equal parts of it. */
#ifndef SIM_CAMPAIGN_CHECKPOINT_H
#define SIM_CAMPAIGN_CHECKPOINT_H

#include "sim/cost/hardware.h"
#include "sim/memory/memory.h"

struct checkpoint {
    double bytes;
    double storage_bytes_per_s; /* of all hosts together */
    double copy_s;              /* from a GPU to its host, for the GPU that takes longest */
    double storage_s;           /* to write to storage, or to read from it */
    /* from each host to its peer's memory, over all of its network cards; 0: no peer */
    double peer_s;
};

/* stages: memory of the plan's stages. */
struct checkpoint checkpoint_of(const struct system *system, const struct model *model,
                                const struct plan *plan, const struct stage_memory *stages);

#endif
