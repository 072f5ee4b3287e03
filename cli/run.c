/* cli/run.c - executes a plan by the op lists of its prediction, and compares prediction and
 * measurement. */
#include "calibration/measure/host_profile.h"
#include "cli/hostile.h"
#include "cli/input/command.h"
#include "cli/input/options.h"
#include "cli/input/setup.h"
#include "cli/input/slice.h"
#include "cli/ranks.h"
#include "cli/timeline/trace.h"
#include "cli/views/answer.h"
#include "cli/views/measured.h"
#include "exec/exchange/exchanger.h"
#include "exec/launch.h"
#include "exec/plugin/backend.h"
#include "exec/run/session.h"
#include "exec/supported.h"
#include "models/corpus.h"
#include "sim/cost/exchange.h"
#include "sim/cost/kernel_launch.h"
#include "sim/engine/event_step.h"
#include "sim/plan/lowering.h"
#include "sim/plan/pass.h"
#include "sim/plan/ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_STEPS = 10, MOST_WARMUPS = 2, MOST_INSTRUCTIONS = 200000, DEFAULT_SEED = 1 };
static const double arena_share = 1.25, arena_extra_bytes = 32 << 20;
static const double default_rate = 1e-3, default_clip = 1, default_watchdog_s = 60;

/* --- preparing the run -------------------------------------------------------------------- */

static bool make_schedule(struct setup *setup, struct run_setup *run, struct err *err)
{
    struct schedule_shape shape = plan_shape(&setup->plan, setup->model.batch);
    struct lowering lowering = plan_lowering(&setup->plan, &setup->model);
    double instructions = plan_instructions(&setup->plan, setup->model.batch);
    if (instructions > MOST_INSTRUCTIONS)
        return err_set(err, ERR_USAGE, "run",
                       "expected a plan of at most %d instructions; this has about %.0f",
                       MOST_INSTRUCTIONS, instructions);
    run->schedule = schedule_new(generator_find(plan_schedule(&setup->plan)), &shape, &lowering,
                                 &setup->arena, err);
    return run->schedule != NULL;
}

/* Checks that the folder has no checkpoints. A new run must not mix its checkpoints with those of
 * another run, even if those cannot be read now. */
static bool check_is_fresh(const char *folder, struct err *err)
{
    struct checkpoint_state saved;
    struct err none = { 0 };
    if (checkpoint_newest(folder, &saved, &none))
        return err_set(err, ERR_USAGE, "--checkpoint",
                       "%s has checkpoints of a run up to step %ld; --resume continues it", folder,
                       saved.step);
    return none.code != ERR_SYSTEM || err_pass(err, &none);
}

static void take_given(const struct options *options, struct checkpoint_state *origin)
{
    if (options->seed > 0)
        origin->seed = (uint64_t)options->seed;
    if (options->training.rate > 0)
        origin->rate = (float)options->training.rate;
    if (options->training.lr_warmup >= 0)
        origin->rates.warmup = options->training.lr_warmup;
    if (options->training.lr_decay >= 0)
        origin->rates.decay = options->training.lr_decay;
    if (options->training.least_rate >= 0)
        origin->rates.least = options->training.least_rate;
    if (options->training.clip >= 0)
        origin->clip = options->training.clip;
    if (options->training.spike >= 0)
        origin->spike = options->training.spike;
}

static bool check_rates(const struct checkpoint_state *origin, struct err *err)
{
    const struct rate_course *rates = &origin->rates;
    if (rates->decay > 0 && rates->decay <= rates->warmup)
        return err_set(err, ERR_USAGE, "--lr-decay",
                       "expected more steps than --lr-warmup, %ld; found %ld", rates->warmup,
                       rates->decay);
    if (rates->least > (double)origin->rate)
        return err_set(err, ERR_USAGE, "--min-lr",
                       "expected at most the learning rate, %g; found %g", (double)origin->rate,
                       rates->least);
    return rates->least == 0 || rates->decay > 0 ||
           err_set(err, ERR_USAGE, "--min-lr", "needs --lr-decay N");
}

/* Each training setting comes from its option, else from the checkpoint, else from the default. */
static bool find_origin(const struct options *options, struct checkpoint_state *out,
                        struct err *err)
{
    *out = (struct checkpoint_state){ .seed = DEFAULT_SEED,
                                      .rate = (float)default_rate,
                                      .clip = default_clip };
    if (options->training.resume && !checkpoint_newest(options->training.checkpoint, out, err))
        return false;
    if (!options->training.resume && options->training.checkpoint &&
        !check_is_fresh(options->training.checkpoint, err))
        return false;
    take_given(options, out);
    return check_rates(out, err);
}

static bool make_run(const struct checkpoint_state *origin, struct setup *setup,
                     const struct token_source *tokens, struct run_setup *out, struct err *err)
{
    *out = (struct run_setup){
        .hostility = out->hostility,
        .plan = &setup->plan,
        .model = &setup->model,
        .options = plan_layer_options(&setup->plan, &setup->system),
        .overlaps_tensor = plan_overlaps(&setup->plan, &setup->system.stack, OVERLAP_TP),
        .overlaps_gradients = plan_overlaps(&setup->plan, &setup->system.stack, OVERLAP_GRAD),
        .prefetch = setup->system.stack.shards.prefetch,
        .has_graphs = out->has_graphs,
        .tokens = tokens,
        .update = { .optimizer = setup->plan.optimizer,
                    .rate = origin->rate,
                    .beta1 = 0.9F,
                    .beta2 = 0.95F,
                    .epsilon = 1e-8F,
                    .momentum = 0.9F,
                    .clip = origin->clip,
                    .loss_scale = 1 },
        .rates = origin->rates,
        .spike = origin->spike,
        .seed = origin->seed,
        .data_ranks = exchange_ranks(&setup->system, &setup->plan),
    };
    return make_schedule(setup, out, err);
}

static bool open_tokens(const struct options *options, const struct setup *setup, uint64_t seed,
                        struct token_source *out, struct err *err)
{
    *out =
        (struct token_source){ .vocab = setup->model.vocab, .seq = setup->model.seq, .seed = seed };
    char path[PATH_MAX];
    return !options->training.data ||
           (corpus_path(options->training.data, path, err) &&
            token_source_open(path, setup->model.vocab, setup->model.seq, seed, out, err));
}

/* --- graphs ------------------------------------------------------------------------------- */

static enum launch launch_wanted(const struct options *options, const char *refusal)
{
    if (options->training.graphs == GRAPHS_ON)
        return refusal ? LAUNCH_EAGER : LAUNCH_GRAPHS;
    bool is_usual =
        options->training.graphs == GRAPHS_AUTO && strcmp(options->training.backend, "cuda") == 0;
    return is_usual ? LAUNCH_PASSES : LAUNCH_EAGER;
}

/* Chooses whether passes run as graphs, and sets the same launch mode for the prediction. If
 * --graphs on is not possible, a note on stderr gives the reason. */
static bool choose_graphs(const struct options *options, struct setup *setup,
                          const struct place *place)
{
    const char *refusal = plan_capture_refusal(&setup->plan);
    setup->system.stack.host.launch = (int)launch_wanted(options, refusal);
    if (options->training.graphs == GRAPHS_ON && refusal && place->rank == 0)
        fprintf(stderr, "simsearch: --graphs: passes are issued op by op, because %s\n", refusal);
    return plan_launch(&setup->plan, &setup->system.stack) == LAUNCH_GRAPHS;
}

/* --- a rank ------------------------------------------------------------------------------- */

/* Finds the backend, and checks that the machine has a device for this rank. */
static const struct backend *find_backend(const struct options *options, int local_rank,
                                          struct err *err)
{
    const struct backend *backend = backend_find(options->training.backend, err);
    return backend && backend->device->is_there(local_rank, err) ? backend : NULL;
}

static const struct comm_api *find_comm(const struct options *options, const struct place *place,
                                        const struct device_api *device, struct err *err)
{
    const char *name = options->training.comm ? options->training.comm : comm_usual(device, place);
    const struct comm_api *comm = comm_find(name, err);
    if (!comm || strcmp(comm->device, device->name) == 0)
        return comm;
    err_set(err, ERR_USAGE, "--comm",
            "%s communicates from the memory of %s, but the backend is %s", name, comm->device,
            device->name);
    return NULL;
}

/* Memory that an exchange of gradients needs: two fp32 copies of all elements, and its own state.
 * The state is computed as if all elements were one long vector, which gives the largest value. */
static double exchange_bytes(const struct setup *setup, const struct stage_memory *memory)
{
    const struct plan *plan = &setup->plan;
    double elements = memory->weights_bytes / precision_bytes(plan->precision);
    struct exchange_tensor all = { elements, 1, 1 };
    struct exchange_load load = { &all, 1, sizeof(float) };
    struct exchange_ranks ranks = exchange_ranks(&setup->system, &setup->plan);
    if (exchange_is_default(&plan->exchange))
        return 0;
    return 2 * (double)sizeof(float) * elements +
           exchanger_memory_bytes(&plan->exchange, &load, &ranks);
}

/* Size of the arena: the memory that frameworks allocate, without libraries, plus a margin if NCCL
 * and the context leave space for it. */
static size_t arena_bytes(const struct setup *setup, const struct prediction *prediction)
{
    double most = 0, beside = 0;
    for (int stage = 0; stage < prediction->num_stages; stage++) {
        const struct stage_memory *memory = &prediction->stages[stage];
        most = fmax(most, memory->allocated_bytes - memory->library_bytes +
                              exchange_bytes(setup, memory));
        beside = fmax(beside, memory->network_bytes + memory->context_bytes);
    }
    double room = setup->system.gpu.memory_bytes - beside;
    return (size_t)fmax(most, fmin(most * arena_share + arena_extra_bytes, room));
}

static bool run_session(const struct options *options, struct setup *setup,
                        const struct place *place, const struct prediction *prediction,
                        struct session_result *out, struct run_setup *run, struct err *err)
{
    const struct backend *backend = find_backend(options, place->local_rank, err);
    if (!backend)
        return false;
    struct token_source tokens;
    struct checkpoint_state origin;
    int steps = options->training.steps > 0 ? options->training.steps : DEFAULT_STEPS;
    struct session_options session = {
        .setup = run,
        .device_api = backend->device,
        .kernel_api = backend->kernels,
        .place = place,
        .arena_bytes = arena_bytes(setup, prediction),
        .steps = steps,
        .warmups = steps / 3 < MOST_WARMUPS ? steps / 3 : MOST_WARMUPS,
        .watchdog_s =
            options->training.watchdog_s > 0 ? options->training.watchdog_s : default_watchdog_s,
        .is_traced = true,
        .checkpoint = options->training.checkpoint,
        .checkpoint_every = options->training.checkpoint_every,
        .resumes = options->training.resume,
    };
    if (!(session.comm_api = find_comm(options, place, backend->device, err)) ||
        !find_origin(options, &origin, err) ||
        !hostile_set(options->training.hostile, &setup->plan, backend->kernels, &run->hostility,
                     err) ||
        !open_tokens(options, setup, origin.seed, &tokens, err))
        return false;
    bool ok = make_run(&origin, setup, &tokens, run, err) &&
              session_run(&session, &setup->arena, out, err);
    token_source_close(&tokens);
    return ok;
}

static bool write_traces(const struct options *options, const struct measured *measured,
                         struct err *err)
{
    if (!options->trace)
        return true;
    struct text layout = { 0 };
    plan_write(&measured->setup->plan, &layout);
    json_t *about = json_pack("{s:s, s:s, s:s}", "version", SIMSEARCH_VERSION, "model",
                              measured->setup->model.name, "layout", text_get(&layout));
    bool ok = trace_write_both(options->trace, measured->predicted_timeline,
                               measured->session->timeline, measured->prediction, about, err);
    text_release(&layout);
    json_decref(about);
    return ok;
}

/* Whether times are compared with the prediction. Times on a host are compared with a prediction
 * for GPUs only on request. */
static bool compares(const struct options *options, const struct setup *setup)
{
    return strcmp(options->training.backend, device_host.name) != 0 || options->cluster ||
           options->gpu || strcmp(setup->system.gpu.name, host_gpu_name) == 0;
}

/* Reports a divergence after the answer, which has the losses. */
static int tell_divergence(const struct options *options, const struct divergence *divergence,
                           struct err *err)
{
    struct checkpoint_state saved;
    divergence_tell(divergence, err);
    if (options->training.checkpoint &&
        checkpoint_newest(options->training.checkpoint, &saved, &(struct err){ 0 }))
        fprintf(stderr,
                "simsearch: %s has a checkpoint of step %ld: continue from it with --resume and a "
                "lower --rate or --clip\n",
                options->training.checkpoint, saved.step);
    return EXIT_DIVERGED;
}

/* Reports the results, on the first rank only. */
static int tell(const struct options *options, struct setup *setup, struct evaluator *evaluator,
                const struct prediction *prediction, const struct session_result *session,
                const struct place *place, const struct run_setup *run, struct err *err)
{
    struct event_step events;
    struct measured measured = { .options = options,
                                 .setup = setup,
                                 .prediction = prediction,
                                 .session = session,
                                 .hostility = &run->hostility,
                                 .seed = run->seed,
                                 .num_ranks = place->size,
                                 .compares = compares(options, setup),
                                 .rate = (double)run->update.rate };
    if (place->rank > 0)
        return EXIT_DONE;
    const struct divergence *divergence = &session->divergence;
    if (!event_step_run(evaluator, &setup->model, &setup->plan, &setup->arena, &events, err))
        return EXIT_FAILED;
    measured.predicted_timeline = events.timeline;
    measured_fill(&measured);
    bool has_diverged = divergence->kind != DIVERGENCE_NONE;
    if (!has_diverged && !write_traces(options, &measured, err))
        return EXIT_FAILED;
    if (options->json)
        measured_print_json(&measured);
    else if (!options_answer_is_hidden(options))
        measured_show(&measured);
    return has_diverged ? tell_divergence(options, divergence, err) : EXIT_DONE;
}

static int run_rank(const struct options *options, struct setup *setup, const struct place *place,
                    struct err *err)
{
    struct run_setup run = { .has_graphs = choose_graphs(options, setup, place) };
    struct evaluator *evaluator = evaluator_new(&setup->system, &setup->model);
    struct prediction prediction = evaluate(evaluator, &setup->plan);
    struct session_result session = { 0 };
    int code = EXIT_FAILED;
    if (run_session(options, setup, place, &prediction, &session, &run, err))
        code = tell(options, setup, evaluator, &prediction, &session, place, &run, err);
    else if (session.is_interrupted)
        code = LAUNCH_EXIT_LOST;
    if (session.damage.code != ERR_NONE)
        fprintf(stderr, "simsearch: %s: %s; continued from step %ld\n", session.damage.where,
                session.damage.msg, session.first_step - 1);
    if (session.copies > 1)
        fprintf(stderr,
                "simsearch: continued from the mean of %d copies of the weights, which "
                "differed\n",
                session.copies);
    evaluator_free(evaluator);
    return code;
}

/* --- the command -------------------------------------------------------------------------- */

static bool check_ranks(const struct options *options, const struct setup *setup,
                        const struct place *place, struct err *err)
{
    int ranks = plan_ranks(&setup->plan);
    if (options->training.ranks > 0 && options->training.ranks != ranks)
        return err_set(err, ERR_USAGE, "--ranks",
                       "this plan has %d ranks, not %d; --slice cuts a plan to that many", ranks,
                       options->training.ranks);
    if (place->launcher[0] != '\0' && place->size != ranks)
        return err_set(err, ERR_USAGE, place->launcher, "started %d ranks, but this plan has %d",
                       place->size, ranks);
    return true;
}

/* Checks --hostile before any rank is started. */
static bool check_hostile(const struct options *options, const struct setup *setup, struct err *err)
{
    struct hostility hostility;
    const struct backend *backend = backend_find(options->training.backend, err);
    return backend &&
           hostile_set(options->training.hostile, &setup->plan, backend->kernels, &hostility, err);
}

static int run_plan(const struct options *options, struct setup *setup, int argc, char **argv,
                    struct err *err)
{
    struct place place;
    if ((options->training.slice && !slice_plan(options, setup, err)) ||
        !place_of_environment(&place, err) || !check_ranks(options, setup, &place, err) ||
        !run_supported(&setup->plan, &setup->model, err) ||
        (options->training.hostile && !check_hostile(options, setup, err)))
        return exit_code_of(err);
    int ranks = plan_ranks(&setup->plan);
    if (place.launcher[0] == '\0' && ranks > 1)
        return find_backend(options, ranks - 1, err) ? ranks_launch(ranks, argc, argv, err)
                                                     : exit_code_of(err);
    int code = run_rank(options, setup, &place, err);
    return err->code != ERR_NONE && code != LAUNCH_EXIT_LOST ? exit_code_of(err) : code;
}

static bool check_words(const struct options *options, struct err *err)
{
    if (options->num_files == 0 && !options->layout)
        return err_set(err, ERR_USAGE, "run", "expected a plan file, or --model and --layout");
    if ((options->training.resume || options->training.checkpoint_every > 0) &&
        !options->training.checkpoint)
        return err_set(err, ERR_USAGE, options->training.resume ? "--resume" : "--checkpoint-every",
                       "needs --checkpoint DIR");
    return true;
}

/* Rejects packed documents: the executor's attention is causal over the whole sequence. */
static bool check_documents(const struct setup *setup, struct err *err)
{
    return setup->model.documents.mean <= 0 ||
           err_set(err, ERR_UNAVAILABLE, "--documents",
                   "run has no attention mask between documents, so it trains only on one document "
                   "per sequence");
}

int cmd_run(int argc, char **argv, struct err *err)
{
    struct options options;
    struct setup setup = { 0 };
    if (!options_parse(COMMAND_RUN, 1, argc, argv, &options, err) || !check_words(&options, err))
        return exit_code_of(err);
    int code = EXIT_FAILED;
    if (!options.training.backend)
        options.training.backend = backend_names[0];
    if (setup_load(&options, options.num_files > 0 ? options.files[0] : NULL, &setup, err) &&
        check_documents(&setup, err))
        code = run_plan(&options, &setup, argc, argv, err);
    setup_release(&setup);
    return err->code != ERR_NONE && code != LAUNCH_EXIT_LOST ? exit_code_of(err) : code;
}
