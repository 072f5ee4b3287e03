/* The part of a checkpoint that belongs to ranks and not to the model: copies of the weights that
 * differ, and the state of a gradient exchange. */
#include "exec/run/checkpoint_exchange.h"

#include "base/crc32c.h"
#include "base/text.h"
#include "exec/run/rank_exchange.h"
#include "sim/plan/layout.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static_assert((int)MAX_CHECKPOINT_KEPT == (int)MAX_KEPT, "every kept array has a number");

static uint32_t layout_of(const struct rank *rank, char *text, size_t size)
{
    struct text layout = { 0 };
    plan_write(rank->setup.plan, &layout);
    uint32_t sum = crc32c(0, text_get(&layout), strlen(text_get(&layout)));
    snprintf(text, size, "%s", text_get(&layout));
    text_release(&layout);
    return sum;
}

void checkpoint_tell_exchange(const struct rank *rank, struct checkpoint_header *header)
{
    const struct plan *plan = rank->setup.plan;
    struct exchange_period period = rank_exchange_period(rank);
    struct text exchange = { 0 };
    exchange_write(&plan->exchange, &exchange);
    snprintf(header->exchange, sizeof header->exchange, "%s", text_get(&exchange));
    text_release(&exchange);
    header->layout_sum = layout_of(rank, header->layout, sizeof header->layout);
    header->replicas = exchange_keeps_replicas_equal(&plan->exchange) ? 1 : plan->dp;
    header->since = period.since;
    header->period = period.period;
    header->first_loss = period.first_loss;
}

/* --- fitting ------------------------------------------------------------------------------ */

bool checkpoint_is_of_layout(const struct rank *rank, const struct checkpoint_header *header)
{
    char text[sizeof header->layout];
    return layout_of(rank, text, sizeof text) == header->layout_sum &&
           strncmp(text, header->layout, sizeof text) == 0;
}

bool checkpoint_exchange_fits(const struct rank *rank, const struct checkpoint_header *header,
                              struct err *err)
{
    struct exchange saved;
    if (header->replicas < 1 || !exchange_read(header->exchange, &saved, &(struct err){ 0 }))
        return err_set(
            err, ERR_INPUT, "exchange",
            "the checkpoint names the exchange \"%.79s\", which this program does not have",
            header->exchange);
    if (!exchange_keeps(&saved) || checkpoint_is_of_layout(rank, header))
        return true;
    return err_set(err, ERR_INPUT, "exchange",
                   "the checkpoint holds %s of each rank for exchange=%s; only a run with its "
                   "layout, \"%.*s\", can continue from it",
                   exchange_keeps(&saved), exchange_method_of(&saved)->name,
                   (int)sizeof header->layout - 1, header->layout);
}

bool checkpoint_is_of_replica(const struct rank *rank, const struct checkpoint_header *header,
                              int file_rank)
{
    int replica = layout_coordinates_of(rank->setup.plan, file_rank).at[AXIS_DATA];
    return header->replicas == 1 || replica == rank->at.at[AXIS_DATA];
}

/* --- state of an exchange ----------------------------------------------------------------- */

static uint32_t pieces_of(struct kept kept)
{
    return (uint32_t)((kept.count + CHECKPOINT_SLICE_ELEMENTS - 1) / CHECKPOINT_SLICE_ELEMENTS);
}

static struct checkpoint_slice slice_of(struct kept kept, int chunk, int array, uint32_t piece)
{
    size_t from = (size_t)piece * CHECKPOINT_SLICE_ELEMENTS, left = kept.count - from;
    return (struct checkpoint_slice){
        .name = "an exchange",
        .layer = (uint32_t)chunk + 1,
        .array = (uint32_t)(CHECKPOINT_KEPT + array),
        .columns = 1,
        .from = from,
        .count = left < CHECKPOINT_SLICE_ELEMENTS ? left : CHECKPOINT_SLICE_ELEMENTS,
    };
}

bool checkpoint_kept_slice(const struct rank *rank, uint32_t number, struct checkpoint_slice *out,
                           float **from)
{
    for (int chunk = 0; chunk < rank->setup.plan->vpp; chunk++) {
        struct kept kept[MAX_KEPT];
        int count = rank_exchange_kept(rank, chunk, kept);
        for (int i = 0; i < count; i++) {
            if (number < pieces_of(kept[i])) {
                *out = slice_of(kept[i], chunk, i, number);
                *from = kept[i].at + out->from;
                return true;
            }
            number -= pieces_of(kept[i]);
        }
    }
    return false;
}

static bool is_same_place(const struct checkpoint_slice *a, const struct checkpoint_slice *b)
{
    return a->layer == b->layer && a->array == b->array && a->from == b->from &&
           a->count == b->count;
}

static bool load_slice(struct rank *rank, const struct checkpoint_file *file,
                       const struct checkpoint_slice *wanted, float *to, float *floats,
                       struct err *err)
{
    const struct machine *m = &rank->machine;
    for (uint32_t i = 0; i < file->header.num_slices; i++) {
        if (!is_same_place(&file->slices[i], wanted))
            continue;
        if (!checkpoint_file_read(file, &file->slices[i], floats, err))
            return false;
        m->device_api->copy(m->compute, to, floats, sizeof *floats * wanted->count);
        return m->device_api->stream_sync(m->compute, err);
    }
    return err_set(err, ERR_INPUT, file->path, "lacks the state of the exchange");
}

bool checkpoint_load_kept(struct rank *rank, const struct checkpoint_file *file, float *floats,
                          struct err *err)
{
    struct checkpoint_slice wanted;
    float *to;
    for (uint32_t i = 0; checkpoint_kept_slice(rank, i, &wanted, &to); i++)
        if (!load_slice(rank, file, &wanted, to, floats, err))
            return false;
    return true;
}
