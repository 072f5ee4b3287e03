#include "sim/cost/stage_load.h"

static void add_piece(struct stage_load *to, const struct piece_cost *piece, double times)
{
    for (int i = 0; i < piece->num_tensors; i++) {
        struct exchange_tensor *tensor = &to->tensors[to->load.num_tensors++];
        *tensor = piece->tensors[i];
        tensor->count *= times;
    }
}

void fill_stage_load(const struct model *model, const struct plan *plan,
                     const struct pieces *pieces, int stage, double share, struct stage_load *out)
{
    struct holding held = stage_holding(plan, model, stage);
    out->load = (struct exchange_load){ .tensors = out->tensors,
                                        .element_bytes = plan_exchange_bytes(plan) };
    for (int piece = 0; piece < NUM_PIECES; piece++)
        if (held.count[piece] > 0)
            add_piece(out, &pieces->at[piece], share * held.count[piece]);
}
