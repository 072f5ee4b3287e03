/* Saves one rank's part of a checkpoint. */
#include "base/arena.h"
#include "exec/run/checkpoint.h"
#include "exec/run/checkpoint_exchange.h"
#include "exec/run/checkpoint_file.h"
#include "exec/run/checkpoint_folder.h"
#include "exec/run/rank.h"
#include "exec/run/rank_state.h"
#include "sim/plan/ranks.h"

#include <stdio.h>
#include <stdlib.h>

static const char saving[] = "for a checkpoint to be saved";

struct saver {
    struct rank *rank;
    struct checkpoint_file file;
    uint64_t end; /* end of the data in the file so far */
    float *floats;
};

static uint32_t slices_of(const struct store *store, const struct stored_weight *stored)
{
    size_t count = range_count(store_counted_range(store, stored));
    size_t pieces = (count + CHECKPOINT_SLICE_ELEMENTS - 1) / CHECKPOINT_SLICE_ELEMENTS;
    return (uint32_t)(pieces * (1 + (size_t)store_num_moments(store)));
}

static uint32_t count_slices(const struct rank *rank)
{
    uint32_t count = 0;
    for (int s = 0; s < rank->num_stores; s++)
        for (int i = 0; i < rank->stores[s].num_weights; i++)
            count += slices_of(&rank->stores[s], &rank->stores[s].weights[i]);
    struct checkpoint_slice ignored;
    float *unread;
    for (uint32_t i = 0; checkpoint_kept_slice(rank, i, &ignored, &unread); i++)
        count++;
    return count;
}

/* Returns the values or a moment, as `array` says, of the elements that this rank updates. */
static const float *array_of(const struct store *store, int array)
{
    if (array >= CHECKPOINT_MOMENTS)
        return store->moments[array - CHECKPOINT_MOMENTS];
    if (store->master)
        return store->master;
    return store_cuts(store, STATE_PARAMETERS)
               ? store->value_shard
               : (const float *)store->values + store_first_updated(store);
}

/* Saves floats from device memory; fills in the slice's offset. */
static bool save_floats(struct saver *saver, struct checkpoint_slice slice, const float *from,
                        struct err *err)
{
    const struct machine *m = &saver->rank->machine;
    size_t bytes = sizeof *from * slice.count;
    slice.offset = saver->end;
    saver->end += bytes;
    m->device_api->copy(m->compute, saver->floats, from, bytes);
    return m->device_api->stream_sync(m->compute, err) &&
           checkpoint_file_add(&saver->file, &slice, saver->floats, err) &&
           (!rank_is_due(saver->rank) ||
            (checkpoint_file_flush(&saver->file, err) && rank_goes_on(saver->rank, saving, err)));
}

static bool save_slice(struct saver *saver, const struct store *store,
                       const struct stored_weight *stored, int array, struct range range,
                       struct err *err)
{
    const struct weight *weight = stored->weight;
    struct checkpoint_slice slice = { .layer = stored->layer,
                                      .number = stored->number,
                                      .array = (uint32_t)array,
                                      .first_row = weight->first_row,
                                      .first_column = weight->first_column,
                                      .columns = weight->columns,
                                      .from = range.from - stored->offset,
                                      .count = range_count(range) };
    snprintf(slice.name, sizeof slice.name, "%s", weight->of->name);
    const float *from = array_of(store, array) + (range.from - store_first_updated(store));
    return save_floats(saver, slice, from, err);
}

static bool save_weight(struct saver *saver, const struct store *store,
                        const struct stored_weight *stored, struct err *err)
{
    struct range all = store_counted_range(store, stored);
    bool ok = true;
    for (int array = 0; array <= store_num_moments(store); array++)
        for (size_t from = all.from; from < all.to && ok; from += CHECKPOINT_SLICE_ELEMENTS) {
            struct range slice = { from, from + CHECKPOINT_SLICE_ELEMENTS };
            ok = save_slice(saver, store, stored, array, range_overlap(slice, all), err);
        }
    return ok;
}

static struct checkpoint_header header_of(const struct rank *rank, long step)
{
    struct checkpoint_header header = { .model = checkpoint_model_of(rank->setup.model),
                                        .step = step,
                                        .seed = rank->setup.seed,
                                        .rate = (double)rank->peak_rate,
                                        .least_rate = rank->setup.rates.least,
                                        .warmup = rank->setup.rates.warmup,
                                        .decay = rank->setup.rates.decay,
                                        .clip = rank->setup.update.clip,
                                        .spike_limit = rank->setup.spike,
                                        .spike_mean = rank->spikes.mean,
                                        .spike_variance = rank->spikes.variance,
                                        .spike_count = rank->spikes.count,
                                        .loss_scale = rank->loss_scale.scale,
                                        .skipped = rank->skipped,
                                        .steps_since = rank->loss_scale.steps_since,
                                        .optimizer = rank->setup.update.optimizer,
                                        .ranks = (uint32_t)plan_ranks(rank->setup.plan),
                                        .rank = (uint32_t)rank->on.rank };
    checkpoint_tell_exchange(rank, &header);
    return header;
}

static bool save_stores(struct saver *saver, struct err *err)
{
    bool ok = true;
    for (int s = 0; s < saver->rank->num_stores; s++) {
        const struct store *store = &saver->rank->stores[s];
        for (int i = 0; i < store->num_weights && ok; i++)
            ok = save_weight(saver, store, &store->weights[i], err);
    }
    return ok;
}

static bool save_kept(struct saver *saver, struct err *err)
{
    struct checkpoint_slice slice;
    float *from;
    for (uint32_t i = 0; checkpoint_kept_slice(saver->rank, i, &slice, &from); i++)
        if (!save_floats(saver, slice, from, err))
            return false;
    return true;
}

static bool save_rank(struct rank *rank, const char *path, long step, struct err *err)
{
    uint32_t count = count_slices(rank);
    struct saver saver = { .rank = rank,
                           .end = sizeof(struct checkpoint_header) +
                                  count * sizeof(struct checkpoint_slice) };
    if (!checkpoint_file_create(path, count, &saver.file, err))
        return false;
    saver.floats = arena_grow(NULL, sizeof *saver.floats * CHECKPOINT_SLICE_ELEMENTS);
    struct checkpoint_header header = header_of(rank, step);
    bool ok = save_stores(&saver, err) && save_kept(&saver, err) &&
              checkpoint_file_finish(&saver.file, &header, err);
    checkpoint_file_close(&saver.file);
    free(saver.floats);
    return ok;
}

bool checkpoint_save(struct rank *rank, const char *folder, long step, struct err *err)
{
    char checkpoint[CHECKPOINT_PATH], path[CHECKPOINT_PATH];
    bool is_first = rank->on.rank == 0;
    checkpoint_path(folder, step, ".tmp", checkpoint);
    checkpoint_rank_path(checkpoint, rank->on.rank, path);
    bool ok = !is_first || checkpoint_begin(folder, step, err);
    ok = rank_agrees(rank, ok, err);
    if (ok) {
        ok = save_rank(rank, path, step, err);
        ok = rank_is_done(rank, saving, err) && rank_agrees(rank, ok, err);
    }
    ok = ok && rank_agrees(rank, !is_first || checkpoint_commit(folder, step, err), err);
    if (ok && is_first)
        checkpoint_prune(folder, step, CHECKPOINTS_KEPT);
    return ok;
}
