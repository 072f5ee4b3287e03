#include "tests/exec/exchange/exchange_side.h"

#include "base/arena.h"

#include <pthread.h>
#include <stdlib.h>

struct rank_thread {
    bool (*part)(void *job, const struct exchange_world *world);
    void *job;
    struct local_world *world;
    struct place place;
    bool ok;
    pthread_t thread;
};

static void *run_rank(void *argument)
{
    struct rank_thread *own = argument;
    struct comm_options options = { .place = &own->place,
                                    .device = &device_host,
                                    .local_world = own->world };
    struct exchange_world world;
    own->ok = exchange_world_open(&world, &comm_local, &options) && own->part(own->job, &world);
    if (world.comm)
        comm_local.close(world.comm);
    return NULL;
}

bool exchange_threads_run(int size, bool (*part)(void *job, const struct exchange_world *world),
                          void *job)
{
    struct rank_thread *ranks = arena_grow(NULL, sizeof *ranks * (size_t)size);
    struct local_world *world = local_world_new(size);
    bool ok = true;
    for (int i = 0; i < size; i++) {
        struct place place = { .launcher = "threads", .rank = i, .size = size };
        ranks[i] = (struct rank_thread){ part, job, world, .place = place };
        if (pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < size; i++) {
        pthread_join(ranks[i].thread, NULL);
        ok = ok && ranks[i].ok;
    }
    local_world_free(world);
    free(ranks);
    return ok;
}
