/* Loss against step of every exchange on a convex problem (tests/logistic.h): eight ranks that are
 * threads, one seed, rates that fade. Of the loss what is above the optimum's is shown, and the
 * bytes that all ranks sent in a step. Nothing is timed. */
#include "tests/exchange_side.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 8, STEPS = 1000 };
static const int shown[] = { 1, 10, 30, 100, 300, 1000 };
enum { NUM_SHOWN = sizeof shown / sizeof *shown };

static const char *const words[] = {
    "allreduce",       "gossip:ring",   "gossip:grid", "gossip:exp",
    "gossip:one-peer", "local:4",       "local:16",    "pga:8:graph=ring",
    "aga:4",           "qsgd:4",        "topk:0.1",    "topk:0.1:memory=off",
    "ef21:0.1",        "neolithic:0.1", "powersgd:1",
};

/* What the threads share. */
struct trial {
    const char *word;
    const struct logistic *problem;
    struct local_world *world;
    double losses[STEPS], bytes;
};

struct rank_thread {
    struct trial *trial;
    int rank;
    bool ok;
    pthread_t thread;
};

static bool train(struct trial *trial, const struct exchange_world *world)
{
    static const struct exchange_tensor weights[] = { { 8, 8, 1 } };
    struct exchange_side side;
    double losses[STEPS];
    struct convex_run run = {
        .problem = trial->problem, .steps = STEPS, .rate = 1, .fades = 100, .losses = losses
    };
    bool ok = exchange_side_open(&side, world, trial->word, weights, 1, 1) &&
              exchange_side_train(&side, &run);
    for (int i = 0; i < STEPS && world->rank == 0 && ok; i++)
        trial->losses[i] = losses[i];
    if (world->rank == 0)
        trial->bytes = run.sent_bytes / STEPS;
    exchange_side_close(&side);
    return ok;
}

static void *run_rank(void *argument)
{
    struct rank_thread *own = argument;
    struct place place = { .launcher = "bench", .rank = own->rank, .size = RANKS };
    struct comm_options options = { .place = &place,
                                    .device = &device_host,
                                    .local_world = own->trial->world };
    struct exchange_world world;
    own->ok = exchange_world_open(&world, &comm_local, &options) && train(own->trial, &world);
    if (world.comm)
        comm_local.close(world.comm);
    return NULL;
}

static bool run_ranks(struct trial *trial)
{
    struct rank_thread ranks[RANKS];
    bool ok = true;
    trial->world = local_world_new(RANKS);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank_thread){ .trial = trial, .rank = i };
        if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(ranks[i].thread, NULL);
        ok = ok && ranks[i].ok;
    }
    local_world_free(trial->world);
    return ok;
}

static void show(const struct trial *trial)
{
    printf("  %-22s", trial->word);
    for (int i = 0; i < NUM_SHOWN; i++)
        printf(" %8.1e", trial->losses[shown[i] - 1] - trial->problem->least);
    printf(" %10.0f\n", trial->bytes);
}

int main(void)
{
    struct arena arena = { 0 };
    struct logistic problem = logistic_new(RANKS, 100, 64, 2, 5, &arena);
    printf("  %-22s", "exchange, step");
    for (int i = 0; i < NUM_SHOWN; i++)
        printf(" %8d", shown[i]);
    printf(" %10s\n", "bytes");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct trial trial = { .word = words[i], .problem = &problem };
        if (!run_ranks(&trial))
            return 1;
        show(&trial);
    }
    arena_release(&arena);
    return 0;
}
