#include "tests/exec/parity.h"

#include "models/blocks.h"
#include "models/corpus.h"
#include "sim/plan/lowering.h"
#include "sim/plan/ranks.h"
#include "tests/testing.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = (IS_ASAN ? 8 : 4) << 20, MOST_RANKS = 16, MOST_WEIGHTS = 512 };

struct job {
    const struct run_setup *setup;
    const struct parity_run *run;
    struct local_world *world;
    int rank, size;
    pthread_t thread;
    pthread_mutex_t *mutex; /* protects the result, which all ranks write */
    struct parity_result *result;
    struct err err;
};

/* --- whole weights ------------------------------------------------------------------------ */

static struct parity_weight *find_weight(struct parity_result *result, const char *name,
                                         size_t elements)
{
    for (int i = 0; i < result->num_weights; i++)
        if (strcmp(result->weights[i].name, name) == 0)
            return &result->weights[i];
    struct parity_weight *weight = &result->weights[result->num_weights++];
    ck_assert_int_lt(result->num_weights, MOST_WEIGHTS);
    snprintf(weight->name, sizeof weight->name, "%s", name);
    weight->elements = elements;
    weight->values = calloc(elements, sizeof *weight->values);
    weight->is_held = calloc(elements, sizeof *weight->is_held);
    return weight;
}

/* Copies, from the device, the values that this rank's optimizer updates; the caller frees the
 * copy. */
static float *own_values(struct rank *rank, const struct store *store)
{
    const struct machine *m = rank_machine(rank);
    size_t count = store_updated(store);
    const float *values = store->master ? store->master
                          : store->zero == 3
                              ? store->value_shard
                              : (const float *)store->values + store_first_updated(store);
    struct err err = { 0 };
    float *own = malloc(count * sizeof *own);
    m->device_api->copy(m->compute, own, values, count * sizeof *own);
    ck_assert_msg(m->device_api->stream_sync(m->compute, &err), "%s", err.msg);
    return own;
}

/* Keeps only those elements of a sharded store that this rank owns. */
static void keep_weight(struct parity_result *result, const struct store *store,
                        const struct stored_weight *stored, const float *own)
{
    const struct weight *weight = stored->weight;
    char name[48];
    snprintf(name, sizeof name, "%d.%s.%d", stored->layer, weight->of->name, (int)weight->of->role);
    struct parity_weight *whole =
        find_weight(result, name, weight->whole_rows * weight->whole_columns);
    struct range updated = store_updated_range(store);
    for (size_t i = 0; i < weight->rows * weight->columns; i++) {
        size_t at = stored->offset + i;
        if (at < updated.from || at >= updated.to)
            continue;
        whole->values[weight_whole_index(weight, i)] = own[at - updated.from];
        whole->is_held[weight_whole_index(weight, i)] = true;
    }
}

/* Whether this rank's weights are collected. If replicas differ, only the first replica's weights
 * are collected. */
static bool are_kept(const struct job *job)
{
    const struct plan *plan = job->setup->plan;
    return exchange_keeps_replicas_equal(&plan->exchange) ||
           layout_coordinates_of(plan, job->rank).at[AXIS_DATA] == 0;
}

static void keep_weights(struct job *job, struct rank *rank)
{
    int count;
    if (!are_kept(job))
        return;
    struct store **stores = rank_stores(rank, &count);
    pthread_mutex_lock(job->mutex);
    for (int s = 0; s < count; s++) {
        float *own = own_values(rank, stores[s]);
        for (int i = 0; i < stores[s]->num_weights; i++)
            if (stores[s]->weights[i].deviation >= 0)
                keep_weight(job->result, stores[s], &stores[s]->weights[i], own);
        free(own);
    }
    pthread_mutex_unlock(job->mutex);
}

/* --- ranks -------------------------------------------------------------------------------- */

static void keep_step(struct parity_result *to, int i, const struct step_result *result)
{
    to->gradient_norm[i] = result->gradient_norm;
    to->loss_scale[i] = result->loss_scale;
    to->is_skipped[i] = result->is_skipped;
}

/* A step gives back all memory that it takes, so as much memory is in use after it as before it.
 * The first step is an exception, because it takes memory that later steps use again. */
static bool gives_back(const struct rank_device *on, int i, size_t *before_bytes, struct err *err)
{
    size_t used_bytes = on->api->memory(on->device).used_bytes;
    bool is_kept = i > 0 && used_bytes != *before_bytes;
    if (is_kept)
        err_set(err, ERR_SYSTEM, "memory", "%zu bytes are in use before a step, but %zu after it",
                *before_bytes, used_bytes);
    *before_bytes = used_bytes;
    return !is_kept;
}

static bool run_steps(struct job *job, const struct rank_device *on, struct rank *rank)
{
    const struct parity_run *run = job->run;
    int first = run->first_step > 0 ? run->first_step : 1;
    double losses[MOST_STEPS];
    size_t used_bytes = 0;
    if (run->before && !run->before(rank, run, &job->err))
        return false;
    for (int i = 0; i < run->steps; i++) {
        struct step_result result;
        if (run->at_step)
            run->at_step(run, job->rank, first + i);
        if (!rank_step(rank, first + i, NULL, &result, &job->err))
            return false;
        if (!gives_back(on, i, &used_bytes, &job->err))
            return false;
        losses[i] = result.loss;
        if (job->rank == 0 || run->process)
            keep_step(job->result, i, &result);
    }
    if (run->at_step)
        run->at_step(run, job->rank, first + run->steps);
    if (!rank_mean_losses(rank, losses, run->steps, &job->err))
        return false;
    if (job->rank == 0 || run->process)
        memcpy(job->result->loss, losses, sizeof *losses * (size_t)run->steps);
    keep_weights(job, rank);
    return !run->after || run->after(rank, run, &job->err);
}

static void run_rank(struct job *job, const struct rank_device *on)
{
    struct rank *rank = rank_new(job->setup, on, &job->err);
    if (rank && !run_steps(job, on, rank))
        on->comm_api->abort(on->comm);
    rank_free(rank);
}

/* Opens a device, and a communicator if the process has none. */
static void *run_job(void *context)
{
    struct job *job = context;
    const struct parity_process *process = job->run->process;
    struct device_options device_options = { .arena_bytes = job->run->arena_bytes > 0
                                                                ? job->run->arena_bytes
                                                                : ARENA_BYTES,
                                             .poisons = true,
                                             .delay_most_s = job->run->delay_most_s,
                                             .delay_seed = (uint64_t)job->rank + 1 };
    struct place place = place_alone();
    place.rank = place.local_rank = job->rank;
    place.size = place.local_size = job->size;
    struct rank_device on = { .api = job->run->device ? job->run->device : &device_host,
                              .kernel_api = job->run->kernels ? job->run->kernels : &kernels_host,
                              .comm_api = job->run->comm ? job->run->comm
                                          : process      ? process->api
                                                         : &comm_local,
                              .comm = process ? process->comm : NULL,
                              .rank = job->rank };
    on.device = on.api->open(&device_options, &job->err);
    struct comm_options comm_options = {
        .place = &place, .device = on.api, .local_world = job->world, .patience_s = 20
    };
    if (on.device && !process)
        on.comm = on.comm_api->open(&comm_options, &job->err);
    if (on.device && on.comm)
        run_rank(job, &on);
    if (on.comm && !process)
        on.comm_api->close(on.comm);
    on.api->close(on.device);
    return NULL;
}

static void check_job(const struct job *job, const char *layout)
{
    ck_assert_msg(job->err.code == ERR_NONE, "%s, rank %d: %s: %s", layout, job->rank,
                  job->err.where, job->err.msg);
}

static void run_process(const struct run_setup *setup, const struct parity_run *run, int size,
                        const char *layout, struct parity_result *out)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct job job = { .setup = setup,
                       .run = run,
                       .rank = run->process->rank,
                       .size = size,
                       .mutex = &mutex,
                       .result = out };
    ck_assert_int_eq(size, run->process->size);
    run_job(&job);
    check_job(&job, layout);
}

/* Checks that every element is held by some rank. */
static void check_whole(const struct parity_result *result, const char *layout)
{
    for (int w = 0; w < result->num_weights; w++) {
        const struct parity_weight *weight = &result->weights[w];
        size_t held = 0;
        for (size_t i = 0; i < weight->elements; i++)
            held += weight->is_held[i];
        ck_assert_msg(held == weight->elements, "%s: weight %s lacks %zu elements", layout,
                      weight->name, weight->elements - held);
    }
}

static void run_threads(const struct run_setup *setup, const struct parity_run *run, int size,
                        const char *layout, struct parity_result *out)
{
    struct job jobs[MOST_RANKS];
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct local_world *world = local_world_new(size);
    for (int i = 0; i < size; i++) {
        jobs[i] = (struct job){ .setup = setup,
                                .run = run,
                                .world = world,
                                .rank = i,
                                .size = size,
                                .mutex = &mutex,
                                .result = out };
        pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]);
    }
    for (int i = 0; i < size; i++)
        pthread_join(jobs[i].thread, NULL);
    for (int i = 0; i < size; i++)
        check_job(&jobs[i], layout);
    local_world_free(world);
    check_whole(out, layout);
}

/* --- one run ------------------------------------------------------------------------------ */

struct model parity_gpt(void)
{
    struct err err = { 0 };
    struct model model;
    ck_assert_msg(model_load("tiny", &model, &err), "%s: %s", err.where, err.msg);
    model.layers = 4;
    model.hidden = 32;
    model.heads = model.kv_heads = 4;
    model.head_dim = 8;
    model.ffn = 128;
    model.vocab = 200;
    model.seq = model.max_positions = 16;
    model.batch = 8;
    return model;
}

struct model parity_llama(void)
{
    struct model model = parity_gpt();
    model.norm = NORM_RMS;
    model.activation = ACTIVATION_SWIGLU;
    model.positions = POSITION_ROTARY;
    model.rope_theta = usual_rope_theta;
    model.max_positions = 0;
    model.linear_bias = model.tied = false;
    model.heads = 4;
    model.kv_heads = 2;
    model.ffn = 96;
    model.dropout = 0;
    return model;
}

struct model parity_mixed(void)
{
    struct model model = parity_llama();
    struct block_kind own = model_kind(&model, 0), other = own;
    other.heads *= 2;
    other.ffn *= 2;
    model.blocks = (struct blocks){
        .kinds = { own, other }, .runs = { { 0, 1 }, { 1, 1 } }, .num_kinds = 2, .num_runs = 2
    };
    return model;
}

struct token_source parity_text(const struct model *model)
{
    struct token_source text;
    struct err err = { 0 };
    char path[PATH_MAX];
    ck_assert_msg(corpus_path("workshop", path, &err) &&
                      token_source_open(path, model->vocab, model->seq, 7, &text, &err),
                  "%s: %s", err.where, err.msg);
    return text;
}

int parity_ranks(const char *layout)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct plan plan;
    ck_assert_msg(plan_parse(layout, &arena, &plan, &err), "%s: %s", layout, err.msg);
    plan.dp = plan.dp > 0 ? plan.dp : 1;
    int ranks = plan_ranks(&plan);
    arena_release(&arena);
    return ranks;
}

void parity_run(const struct model *model, const char *layout, const struct parity_run *run,
                struct parity_result *out)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct plan plan;
    ck_assert_msg(plan_parse(layout, &arena, &plan, &err), "%s: %s", layout, err.msg);
    plan.dp = plan.dp > 0 ? plan.dp : 1;
    plan.precision = run->precision;
    int size = plan_ranks(&plan);
    ck_assert_msg(!plan_check(&plan, model, model->batch, size, &err), "%s: %s: %s", layout,
                  err.where, err.msg);
    struct lowering lowering = plan_lowering(&plan, model);
    struct schedule_shape shape = plan_shape(&plan, model->batch);
    struct schedule *schedule =
        schedule_new(generator_find(plan_schedule(&plan)), &shape, &lowering, &arena, &err);
    ck_assert_msg(schedule != NULL, "%s: %s", layout, err.msg);
    struct token_source tokens = { .vocab = model->vocab, .seq = model->seq, .seed = run->seed };
    struct layer_options options = { .flash_attention = !run->unfused,
                                     .dtype = precision_value_dtype(run->precision),
                                     .gradient_bytes = 4 };
    struct run_setup setup = {
        .plan = &plan,
        .model = model,
        .schedule = schedule,
        .options = run->options ? *run->options : options,
        .overlaps_tensor = strstr(layout, "overlap=tp") != NULL,
        .overlaps_gradients = strstr(layout, "overlap=grad") != NULL,
        .prefetch = run->prefetch,
        .has_graphs = run->has_graphs,
        .tokens = run->tokens ? run->tokens : &tokens,
        .update = { .optimizer = run->optimizer,
                    .rate = run->rate,
                    .beta1 = 0.9F,
                    .beta2 = 0.95F,
                    .epsilon = 1e-4F,
                    .momentum = 0.9F,
                    .clip = run->unclipped  ? 0
                            : run->clip > 0 ? run->clip
                                            : 1,
                    .loss_scale = 1 },
        .rates = run->rates,
        .spike = run->spike,
        .hostility = run->hostility,
        .seed = run->seed,
        .data_ranks = { plan.dp, 1 },
    };
    *out = (struct parity_result){ .weights = calloc(MOST_WEIGHTS, sizeof *out->weights) };
    (run->process ? run_process : run_threads)(&setup, run, size, layout, out);
    arena_release(&arena);
}

struct parity_result parity_run_lists(const struct model *model, const char *layout, int precision,
                                      struct layer_options options)
{
    struct parity_result result;
    options.flash_attention = true;
    options.dtype = precision_value_dtype(precision);
    options.gradient_bytes = 4;
    struct parity_run run = { .steps = 2,
                              .optimizer = OPTIMIZER_SGD,
                              .rate = 0.5F,
                              .precision = precision,
                              .options = &options,
                              .seed = 3 };
    parity_run(model, layout, &run, &result);
    return result;
}

void parity_release(struct parity_result *result)
{
    for (int i = 0; i < result->num_weights; i++) {
        free(result->weights[i].values);
        free(result->weights[i].is_held);
    }
    free(result->weights);
}
