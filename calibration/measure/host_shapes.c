/* The shapes of models whose ops are timed. */
#include "calibration/measure/host_shapes.h"

#include "base/length.h"

#include <stdio.h>
#include <string.h>

// clang-format off
struct grid_row {
    int hidden, head_dim, seq, sequences;
    double share; /* share of heads, ffn and vocabulary that one tensor rank has */
    int vocab;
    bool is_llama, drops, is_unfused, is_quick;
};
static const struct grid_row core_rows[] = {
    { 64,   16,  64, 1, 1,   256,  false, false, false, true },
    { 64,   16,  64, 4, 0.5, 256,  false, false, false, true },
    { 64,   16, 128, 8, 1,   512,  false, true,  false, false },
    { 128,  32, 128, 2, 1,   1024, false, false, false, true },
    { 128,  32,  64, 1, 0.5, 256,  true,  false, false, false },
    { 256,  64, 128, 1, 1,   512,  false, false, false, true },
    { 256,  32, 128, 2, 0.5, 1024, false, false, false, true },
    { 256,  64, 256, 4, 1,   2048, false, false, false, true },
    { 256,  64, 256, 2, 1,   1024, true,  false, false, true },
    { 256,  64, 256, 1, 1,   1024, false, true,  false, true },
    { 256,  64, 256, 2, 1,   512,  false, false, true,  true },
    { 256,  64, 512, 8, 0.5, 1024, false, false, false, false },
    { 512,  64, 128, 1, 0.5, 512,  false, false, false, true },
    { 512,  64, 256, 2, 1,   4096, false, false, false, true },
    { 512,  64, 256, 4, 0.5, 1024, false, false, false, true },
    { 512,  64, 512, 1, 1,   1024, true,  false, false, true },
    { 512, 128, 512, 2, 1,   1024, false, true,  false, false },
    { 512,  64, 512, 2, 1,   8192, false, false, false, false },
    { 512,  64, 512, 1, 1,   1024, false, true,  true,  false },
    { 768,  64, 256, 1, 1,   2048, false, false, false, false },
    { 768,  64, 256, 4, 0.5, 2048, false, false, false, false },
    { 1024, 64, 128, 1, 1,   1024, false, false, false, true },
    { 1024, 64, 512, 1, 0.5, 1024, false, false, false, true },
    { 1024,128, 512, 2, 1,   2048, true,  false, false, false },
};
/* Widths of GPT-2 to GPT-3 and of Llama, divided over 1 to 8 tensor ranks. */
static const struct grid_row gpu_rows[] = {
    { 768,   64,  1024, 4, 1,     50304, false, false, false, true },
    { 768,   64,  1024, 16, 1,    50304, false, true,  false, true },
    { 1024,  64,  1024, 4, 0.5,   50304, false, false, false, false },
    { 2048,  64,  1024, 4, 1,     50304, false, false, false, true },
    { 2048, 128,  2048, 1, 1,     32000, true,  false, false, true },
    { 2560,  80,  2048, 1, 1,     50304, false, false, false, false },
    { 2048,  64,  1024, 2, 1,     50304, false, true,  true,  false },
    { 4096, 128,  2048, 1, 1,     32000, true,  false, false, true },
    { 4096, 128,  4096, 1, 1,     32000, true,  false, false, false },
    { 4096, 128,  8192, 1, 1,     32000, true,  false, false, true },
    { 4096, 128,  2048, 4, 0.5,   32000, true,  false, false, false },
    { 4096, 128,  2048, 2, 0.125, 32000, true,  false, false, true },
    { 5120, 128,  2048, 1, 0.5,   50304, false, false, false, false },
    { 8192, 128,  2048, 1, 0.25,  32000, true,  false, false, false },
    { 8192, 128,  4096, 1, 0.125, 32000, true,  false, false, true },
    { 12288,128,  2048, 1, 0.125, 50304, false, false, false, false },
};
static const struct {
    const struct grid_row *rows;
    int count;
} grids[] = {
    [GRID_CORE] = { core_rows, LENGTH(core_rows) },
    [GRID_GPU] = { gpu_rows, LENGTH(gpu_rows) },
};
// clang-format on

static int share_of(int whole, double share)
{
    int part = (int)(whole * share);
    return part > 0 ? part : 1;
}

struct model host_shapes_model(bool is_llama, int hidden, int head_dim, int seq)
{
    int heads = hidden / head_dim;
    return (struct model){
        .hidden = hidden,
        .heads = heads,
        .kv_heads = heads,
        .head_dim = head_dim,
        .ffn = is_llama ? hidden * 8 / 3 / 32 * 32 : 4 * hidden,
        .seq = seq,
        .max_positions = is_llama ? 0 : seq,
        .norm = is_llama ? NORM_RMS : NORM_LAYER,
        .activation = is_llama ? ACTIVATION_SWIGLU : ACTIVATION_GELU,
        .positions = is_llama ? POSITION_ROTARY : POSITION_LEARNED,
        .rope_theta = is_llama ? usual_rope_theta : 0,
        .norm_epsilon = usual_norm_epsilon,
        .linear_bias = !is_llama,
        .tied = !is_llama,
    };
}

static struct model model_of(const struct grid_row *row)
{
    struct model model = host_shapes_model(row->is_llama, row->hidden, row->head_dim, row->seq);
    int kv_heads = row->is_llama ? model.heads / 2 : model.heads;
    model.layers = HOST_SHAPE_LAYERS;
    model.heads = share_of(model.heads, row->share);
    model.kv_heads = share_of(kv_heads, row->share);
    model.ffn = share_of(model.ffn, row->share);
    model.vocab = share_of(row->vocab, row->share);
    model.dropout = row->drops ? 0.1 : 0;
    model.batch = row->sequences;
    snprintf(model.name, sizeof model.name, "h%d-s%d-b%d", row->hidden, row->seq, row->sequences);
    return model;
}

struct host_shapes host_shapes_grid(enum host_grid grid, bool is_quick, struct arena *arena)
{
    int most = grids[grid].count;
    struct host_shapes shapes = { .at = ARENA_ARRAY(arena, struct host_shape, (size_t)most) };
    for (int i = 0; i < most; i++) {
        const struct grid_row *row = &grids[grid].rows[i];
        if (row->is_quick || !is_quick)
            shapes.at[shapes.count++] = (struct host_shape){ model_of(row), row->is_unfused };
    }
    return shapes;
}

static bool divides(const struct model *model, int tp)
{
    return model->heads % tp == 0 && model->kv_heads % tp == 0 && model->ffn % tp == 0;
}

static struct model tensor_share(const struct model *model, int tp, int sequences)
{
    struct model share = *model;
    share.layers = HOST_SHAPE_LAYERS;
    share.heads /= tp;
    share.kv_heads /= tp;
    share.ffn /= tp;
    share.vocab = (model->vocab + tp - 1) / tp;
    share.batch = sequences;
    return share;
}

void host_shapes_add(struct host_shapes *shapes, const struct model *model, int num_ranks,
                     struct arena *arena)
{
    enum { MOST_TENSOR_RANKS = 8, MOST_SEQUENCES = 4, MOST_ADDED = 16 };
    struct host_shape *all =
        ARENA_ARRAY(arena, struct host_shape, (size_t)shapes->count + MOST_ADDED);
    memcpy(all, shapes->at, (size_t)shapes->count * sizeof *all);
    shapes->at = all;
    for (int tp = 1; tp <= num_ranks && tp <= MOST_TENSOR_RANKS; tp *= 2)
        for (int sequences = 1; sequences <= MOST_SEQUENCES; sequences *= 2)
            if (divides(model, tp)) {
                shapes->at[shapes->count++] =
                    (struct host_shape){ tensor_share(model, tp, sequences), false };
                shapes->num_own++;
            }
}

static bool have_common_divisor(int a, int b)
{
    while (b > 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a > 1;
}

/* Goes through the shapes with a stride of about the golden ratio times their number, which reaches
 * each once and keeps the measured ones evenly spread. */
int host_shapes_turn(const struct host_shapes *shapes, int i)
{
    int grid = shapes->count - shapes->num_own;
    if (i < shapes->num_own)
        return grid + i;
    int stride = (int)(0.618 * grid);
    while (stride > 1 && have_common_divisor(grid, stride))
        stride--;
    return (i - shapes->num_own) * (stride > 0 ? stride : 1) % grid;
}
