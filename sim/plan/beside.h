/* sim/plan/beside.h - the shared expert overlaps the exchanges of routed experts' rows. */
#ifndef SIM_PLAN_BESIDE_H
#define SIM_PLAN_BESIDE_H

#include "base/arena.h"
#include "models/op.h"

/* Moves the shared expert's ops in the op lists of a block, in which collectives stand where ranks
 * communicate. Its first half (up to the activation) runs while the rows are sent to the experts,
 * the second half while they are sent back; in the backward the halves change places (Megatron
 * Core, moe/shared_experts.py and token_dispatcher.py, moe_shared_expert_overlap). Lists without a
 * shared expert or without exchanges stay as they are. Arrays live in the arena. */
struct ops shared_beside_rows(struct ops forward, struct arena *arena);
struct ops shared_beside_gradients(struct ops backward, struct arena *arena);

#endif
