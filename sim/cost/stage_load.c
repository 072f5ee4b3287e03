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
    double layers = 0;
    for (int chunk = stage; chunk < plan_chunks(plan); chunk += plan->pp)
        layers += plan_chunk_layers(plan, model, chunk);
    out->load = (struct exchange_load){ .tensors = out->tensors,
                                        .element_bytes = plan_exchange_bytes(plan) };
    add_piece(out, &pieces->layer, share * layers);
    if (stage == 0)
        add_piece(out, &pieces->embedding, share);
    if (stage == plan->pp - 1)
        add_piece(out, &pieces->head, share);
}
