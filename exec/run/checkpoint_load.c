/* Loads a checkpoint. A slice is a block of elements of one weight or moment in a checkpoint's
 * file. A store holds a rank's parameters with their optimizer state. */
#include "base/arena.h"
#include "base/length.h"
#include "exec/run/checkpoint.h"
#include "exec/run/checkpoint_exchange.h"
#include "exec/run/checkpoint_file.h"
#include "exec/run/checkpoint_folder.h"
#include "exec/run/rank_exchange.h"
#include "sim/plan/ranks.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* --- lookup ------------------------------------------------------------------------------- */

static bool open_of_rank(const char *folder, long step, int rank, struct checkpoint_file *file,
                         struct err *err)
{
    char checkpoint[CHECKPOINT_PATH], path[CHECKPOINT_PATH];
    checkpoint_path(folder, step, "", checkpoint);
    checkpoint_rank_path(checkpoint, rank, path);
    return checkpoint_file_open(path, file, err);
}

static bool read_state(const char *folder, long step, struct checkpoint_header *out,
                       struct err *err)
{
    struct checkpoint_file file;
    if (!open_of_rank(folder, step, 0, &file, err))
        return false;
    *out = file.header;
    checkpoint_file_close(&file);
    return true;
}

static struct checkpoint_state state_of(const struct checkpoint_header *header,
                                        const struct err *damage, int copies)
{
    return (struct checkpoint_state){
        .step = (long)header->step,
        .seed = header->seed,
        .rate = (float)header->rate,
        .rates = { (long)header->warmup, (long)header->decay, header->least_rate },
        .clip = header->clip,
        .spike = header->spike_limit,
        .damage = *damage,
        .copies = copies,
    };
}

bool checkpoint_newest(const char *folder, struct checkpoint_state *out, struct err *err)
{
    struct err damage = { 0 };
    struct checkpoint_header header;
    for (long step = LONG_MAX; (step = checkpoint_before(folder, step, err)) >= 0;) {
        struct err found = { 0 };
        if (read_state(folder, step, &header, &found)) {
            *out = state_of(&header, &damage, 1);
            return true;
        }
        if (found.code == ERR_SYSTEM)
            return err_pass(err, &found);
        err_pass(&damage, &found);
    }
    return damage.code != ERR_NONE ? err_set(err, ERR_INPUT, damage.where, "%s", damage.msg)
                                   : err_set(err, ERR_INPUT, folder, "holds no checkpoint");
}

static const char loading[] = "for a checkpoint to be loaded";

/* --- checking ----------------------------------------------------------------------------- */

static bool check_file(struct rank *rank, const char *folder, const struct checkpoint_header *first,
                       int number, float *floats, struct err *err)
{
    struct checkpoint_file file;
    if (!open_of_rank(folder, (long)first->step, number, &file, err))
        return false;
    const struct checkpoint_header *header = &file.header;
    bool ok = (header->step == first->step && header->ranks == first->ranks &&
               header->rank == (uint32_t)number) ||
              err_set(err, ERR_INPUT, file.path, "belongs to another checkpoint");
    for (uint32_t i = 0; i < header->num_slices && ok; i++)
        ok = checkpoint_file_read(&file, &file.slices[i], floats, err) &&
             rank_goes_on(rank, loading, err);
    checkpoint_file_close(&file);
    return ok;
}

/* Checks this rank's part of the checkpoint's files, which are divided over the ranks. */
static bool check_share(struct rank *rank, const char *folder, long step,
                        struct checkpoint_header *header, struct err *err)
{
    int size = plan_ranks(rank->setup.plan);
    if (!read_state(folder, step, header, err))
        return false;
    if (header->step != step)
        return err_set(err, ERR_INPUT, folder, "holds step %ld under the name of step %ld",
                       (long)header->step, step);
    float *floats = arena_grow(NULL, sizeof *floats * CHECKPOINT_SLICE_ELEMENTS);
    bool ok = true;
    for (int file = rank->on.rank; file < (int)header->ranks && ok; file += size)
        ok = check_file(rank, folder, header, file, floats, err);
    free(floats);
    return ok;
}

/* A rank's verdict on its files. The worst verdict of any rank holds for all ranks. An unreadable
 * checkpoint may be intact, so it is neither skipped nor renamed. */
enum condition { IS_WHOLE, IS_DAMAGED, IS_UNREADABLE };

static enum condition condition_of_share(struct rank *rank, const char *folder, long step,
                                         struct checkpoint_header *header, struct err *fault)
{
    if (check_share(rank, folder, step, header, fault))
        return IS_WHOLE;
    return fault->code == ERR_SYSTEM ? IS_UNREADABLE : IS_DAMAGED;
}

static bool fail_to_read(const char *folder, const struct err *own, struct err *err)
{
    return own->code == ERR_SYSTEM
               ? err_pass(err, own)
               : err_set(err, ERR_SYSTEM, folder, "another rank found that it cannot be read");
}

/* Finds the newest step that any rank sees; -1: none. */
static bool newest_of_all(struct rank *rank, const char *folder, long limit, long *step,
                          struct err *err)
{
    struct err own = { 0 };
    double found[] = { (double)checkpoint_before(folder, limit, &own), 0 };
    found[1] = own.code != ERR_NONE;
    if (!rank_most(rank, found, LENGTH(found), err))
        return false;
    *step = (long)found[0];
    return found[1] == 0 || fail_to_read(folder, &own, err);
}

/* Finds the newest checkpoint that all ranks find intact. */
static bool find_whole(struct rank *rank, const char *folder, struct checkpoint_header *header,
                       struct err *damage, struct err *err)
{
    for (long step = LONG_MAX;;) {
        if (!newest_of_all(rank, folder, step, &step, err))
            return false;
        if (step < 0)
            return damage->code == ERR_NONE
                       ? err_set(err, ERR_INPUT, folder, "holds no checkpoint")
                       : err_set(err, ERR_INPUT, folder, "contains no complete checkpoint");
        struct err fault = { 0 };
        double condition = condition_of_share(rank, folder, step, header, &fault);
        if (!rank_is_done(rank, loading, err) || !rank_most(rank, &condition, 1, err))
            return false;
        if (condition == IS_WHOLE)
            return true;
        if (condition == IS_UNREADABLE)
            return fail_to_read(folder, &fault, err);
        err_set(&fault, ERR_INPUT, folder, "another rank found that step %ld is damaged", step);
        err_pass(damage, &fault);
        if (rank->on.rank == 0)
            checkpoint_set_aside(folder, step);
    }
}

/* --- loading ------------------------------------------------------------------------------ */

/* The new contents of a store: values of all elements (with ZeRO-3 only of those that the rank
 * updates), and moments of the elements that the rank updates. */
struct staged {
    const struct store *store;
    float *values, *moments[2];
    struct range held; /* elements whose values are staged */
    int copies;        /* number of model copies read, of which the mean is taken */
    size_t missing;    /* floats not yet found in any slice */
};

static size_t shared(struct range a, struct range b)
{
    return range_count(range_overlap(a, b));
}

/* The rows of the whole weight that this rank holds. */
static struct range rows_of(const struct weight *weight)
{
    return (struct range){ weight->first_row, weight->first_row + weight->rows };
}

static struct range columns_of(const struct weight *weight)
{
    return (struct range){ weight->first_column, weight->first_column + weight->columns };
}

/* The number of the weight's elements on this rank, without the padding of the vocabulary, which is
 * 0 on every layout. */
static size_t real_elements(const struct rank *rank, const struct weight *weight)
{
    struct range real = { 0, (size_t)rank->setup.model->vocab };
    return weight->of->is_vocabulary ? shared(rows_of(weight), real) * weight->columns
                                     : weight_elements(weight);
}

static float *zeroed(size_t elements)
{
    float *at = arena_grow(NULL, sizeof *at * elements);
    memset(at, 0, sizeof *at * elements);
    return at;
}

static struct staged stage(const struct rank *rank, const struct store *store, int copies)
{
    struct range all = { 0, store->padded }, updated = store_updated_range(store);
    struct staged staged = { .store = store,
                             .held = store_cuts(store, STATE_PARAMETERS) ? updated : all,
                             .copies = copies };
    int num_moments = store_num_moments(store);
    staged.values = zeroed(range_count(staged.held));
    for (int i = 0; i < num_moments; i++)
        staged.moments[i] = zeroed(range_count(updated));
    for (int i = 0; i < store->num_weights; i++) {
        size_t from = store->weights[i].offset;
        struct range real = { from, from + real_elements(rank, store->weights[i].weight) };
        staged.missing += (size_t)copies *
                          (shared(real, staged.held) + (size_t)num_moments * shared(real, updated));
    }
    return staged;
}

static void put_float(struct staged *staged, uint32_t array, size_t at, float value)
{
    bool is_value = array == CHECKPOINT_VALUES;
    struct range held = is_value ? staged->held : store_updated_range(staged->store);
    float *to = is_value ? staged->values : staged->moments[array - CHECKPOINT_MOMENTS];
    if (at < held.from || at >= held.to)
        return;
    if (staged->copies == 1)
        to[at - held.from] = value;
    else
        to[at - held.from] += value / (float)staged->copies;
    staged->missing--;
}

static void put_slice(const struct rank *rank, struct staged *staged,
                      const struct stored_weight *stored, const struct checkpoint_slice *slice,
                      const float *floats)
{
    const struct weight *weight = stored->weight;
    size_t real = real_elements(rank, weight);
    for (size_t i = 0; i < slice->count; i++) {
        size_t row = slice->first_row + (slice->from + i) / slice->columns;
        size_t column = slice->first_column + (slice->from + i) % slice->columns;
        size_t own = (row - weight->first_row) * weight->columns + column - weight->first_column;
        if (row >= weight->first_row && row - weight->first_row < weight->rows &&
            column >= weight->first_column && column - weight->first_column < weight->columns &&
            own < real)
            put_float(staged, slice->array, stored->offset + own, floats[i]);
    }
}

/* Whether the slice may overlap the weight; avoids reading slices that this rank does not need. */
static bool may_meet(const struct stored_weight *stored, const struct checkpoint_slice *slice)
{
    size_t last = (slice->from + slice->count - 1) / slice->columns;
    struct range rows = { slice->first_row + slice->from / slice->columns,
                          slice->first_row + last + 1 };
    struct range columns = { slice->first_column, slice->first_column + slice->columns };
    return slice->array < CHECKPOINT_KEPT && slice->layer == stored->layer &&
           slice->number == stored->number && shared(rows, rows_of(stored->weight)) > 0 &&
           shared(columns, columns_of(stored->weight)) > 0;
}

struct loader {
    struct rank *rank;
    bool is_same_layout;   /* whether the run has the same layout as the saved one */
    struct staged *staged; /* [store] */
    float *floats;
};

static bool load_slice(struct loader *loader, const struct checkpoint_file *file,
                       const struct checkpoint_slice *slice, struct err *err)
{
    bool is_read = false;
    for (int s = 0; s < loader->rank->num_stores; s++) {
        const struct store *store = &loader->rank->stores[s];
        for (int i = 0; i < store->num_weights; i++) {
            if (!may_meet(&store->weights[i], slice))
                continue;
            if (!is_read && !checkpoint_file_read(file, slice, loader->floats, err))
                return false;
            is_read = true;
            put_slice(loader->rank, &loader->staged[s], &store->weights[i], slice, loader->floats);
        }
    }
    return true;
}

/* Loads this rank's own state from the file that it wrote itself. */
static bool load_own(struct loader *loader, const struct checkpoint_file *file, struct err *err)
{
    const struct checkpoint_header *header = &file->header;
    struct rank *rank = loader->rank;
    rank->loss_scale.scale = header->loss_scale;
    rank->loss_scale.steps_since = header->steps_since;
    rank->skipped = header->skipped;
    struct exchange_period period = { header->since, header->period, header->first_loss };
    rank_exchange_set_period(rank, period);
    return checkpoint_load_kept(rank, file, loader->floats, err);
}

static bool load_file(struct loader *loader, const char *folder, long step, int rank,
                      struct err *err)
{
    struct checkpoint_file file;
    bool ok = open_of_rank(folder, step, rank, &file, err);
    bool is_read = !loader->is_same_layout ||
                   (ok && checkpoint_is_of_replica(loader->rank, &file.header, rank));
    for (uint32_t i = 0; ok && is_read && i < file.header.num_slices; i++)
        ok = load_slice(loader, &file, &file.slices[i], err) &&
             rank_goes_on(loader->rank, loading, err);
    if (ok && loader->is_same_layout && rank == loader->rank->on.rank)
        ok = load_own(loader, &file, err);
    if (file.fd >= 0)
        checkpoint_file_close(&file);
    return ok;
}

static bool load_files(struct loader *loader, const char *folder,
                       const struct checkpoint_header *header, struct err *err)
{
    bool ok = true;
    for (int rank = 0; rank < (int)header->ranks && ok; rank++)
        ok = load_file(loader, folder, (long)header->step, rank, err);
    return ok;
}

static bool set_stores(struct rank *rank, const struct staged *staged, const char *folder,
                       struct err *err)
{
    for (int s = 0; s < rank->num_stores; s++) {
        const struct staged *at = &staged[s];
        if (at->missing > 0)
            return err_set(err, ERR_INPUT, folder, "lacks %zu values of %s", at->missing,
                           at->store->weights[0].weight->of->name);
        if (!store_set(&rank->machine, &rank->stores[s], at->values, at->moments, err))
            return false;
    }
    return true;
}

static bool load_stores(struct rank *rank, const char *folder,
                        const struct checkpoint_header *header, struct err *err)
{
    size_t count = (size_t)rank->num_stores;
    bool is_same_layout = checkpoint_is_of_layout(rank, header);
    struct loader loader = { .rank = rank,
                             .is_same_layout = is_same_layout,
                             .staged = arena_grow(NULL, sizeof *loader.staged * count),
                             .floats = arena_grow(NULL, sizeof *loader.floats *
                                                            CHECKPOINT_SLICE_ELEMENTS) };
    for (size_t s = 0; s < count; s++)
        loader.staged[s] = stage(rank, &rank->stores[s], is_same_layout ? 1 : header->replicas);
    bool ok =
        load_files(&loader, folder, header, err) && set_stores(rank, loader.staged, folder, err);
    for (size_t s = 0; s < count; s++) {
        free(loader.staged[s].values);
        free(loader.staged[s].moments[0]);
        free(loader.staged[s].moments[1]);
    }
    free(loader.staged);
    free(loader.floats);
    return ok;
}

static bool fits(const struct rank *rank, const struct checkpoint_header *header, struct err *err)
{
    const struct run_setup *setup = &rank->setup;
    if (!checkpoint_model_is(&header->model, setup->model, err))
        return false;
    if (header->seed != setup->seed)
        return err_set(err, ERR_INPUT, "seed", "is %llu in the checkpoint, but %llu in the run",
                       (unsigned long long)header->seed, (unsigned long long)setup->seed);
    if (header->optimizer != setup->update.optimizer)
        return err_set(err, ERR_INPUT, "optimizer", "is %s in the checkpoint, but %s in the run",
                       optimizer_names[header->optimizer],
                       optimizer_names[setup->update.optimizer]);
    return checkpoint_exchange_fits(rank, header, err);
}

bool checkpoint_load(struct rank *rank, const char *folder, struct checkpoint_state *out,
                     struct err *err)
{
    struct checkpoint_header header = { 0 };
    struct err damage = { 0 };
    if (!find_whole(rank, folder, &header, &damage, err) || !fits(rank, &header, err))
        return false;
    rank->loss_scale.scale = header.loss_scale;
    rank->loss_scale.steps_since = header.steps_since;
    rank->skipped = header.skipped;
    rank->spikes =
        (struct spike_watch){ header.spike_mean, header.spike_variance, header.spike_count };
    bool is_mean = header.replicas > 1 && !checkpoint_is_of_layout(rank, &header);
    *out = state_of(&header, &damage, is_mean ? header.replicas : 1);
    bool ok = load_stores(rank, folder, &header, err);
    return rank_is_done(rank, loading, err) && rank_agrees(rank, ok, err);
}
