/* Measures the rate of messages between two ranks, compared with a plain copy of the same bytes:
 * threads through memory, processes over the loopback. The rate is the message's bytes over its
 * time, the best of several runs. In an all-reduce of two ranks, each rank sends half the message
 * twice, so it is at most as fast as a copy. Then it measures the time of small all-reduces among
 * more ranks, one after another. */
#include "base/clock.h"
#include "base/length.h"
#include "exec/comm/comm.h"
#include "exec/comm/socket.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes_bytes[] = { 64, 4 << 10, 64 << 10, 1 << 20, 16 << 20 };
static const size_t small_bytes[] = { 8, 1 << 10, 4 << 10, 16 << 10 };
static const int team_sizes[] = { 2, 3, 4, 8 };
enum {
    NUM_SIZES = LENGTH(sizes_bytes),
    NUM_SMALL = LENGTH(small_bytes),
    NUM_TEAMS = LENGTH(team_sizes),
    REPEATS = 20,
    SMALL_REPEATS = 100,
    IN_A_ROW = 16,
    MOST_RANKS = 8
};

struct team {
    const struct comm_api *api;
    int size;
    void *(*run)(void *side); /* function of each thread */
    struct local_world *world;
    int meeting_fd, meeting_port;
};

struct side {
    const struct team *team;
    struct device *device;
    struct stream *stream;
    struct comm *comm;
    struct group *group;
    int rank;
    char *in, *out;
};

static void check(bool ok, const struct err *err)
{
    if (ok)
        return;
    printf("%s: %s\n", err->where, err->msg);
    exit(1);
}

static struct side side_open(const struct team *team, int rank)
{
    static const int ranks[MOST_RANKS] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    struct err err = { 0 };
    struct side side = { .team = team, .rank = rank };
    struct place place = { .launcher = "bench",
                           .rank = rank,
                           .size = team->size,
                           .meeting_host = "127.0.0.1",
                           .meeting_port = team->meeting_port,
                           .meeting_fd = rank == 0 ? team->meeting_fd : -1 };
    size_t most = sizes_bytes[NUM_SIZES - 1];
    side.device = device_host.open(&(struct device_options){ .arena_bytes = 2 * most }, &err);
    check(side.device != NULL, &err);
    side.in = device_host.alloc(side.device, NULL, most, &err);
    side.out = device_host.alloc(side.device, NULL, most, &err);
    side.stream = device_host.stream_new(side.device, "bench", &err);
    side.comm = team->api->open(
        &(struct comm_options){
            .place = &place, .device = &device_host, .local_world = team->world, .patience_s = 10 },
        &err);
    check(side.comm != NULL, &err);
    side.group = team->api->group_new(side.comm, ranks, team->size, &err);
    check(side.group != NULL, &err);
    return side;
}

static void side_close(struct side *side)
{
    device_host.stream_free(side->stream);
    side->team->api->group_free(side->group);
    side->team->api->close(side->comm);
    device_host.close(side->device);
}

/* Measures the seconds of `count` equal calls. */
static double run_calls(const struct side *side, struct comm_call call, int count)
{
    struct err err = { 0 };
    call.group = side->group;
    call.stream = side->stream;
    call.in = side->in;
    call.out = side->out;
    double start_s = clock_now_s();
    for (int i = 0; i < count; i++)
        side->team->api->issue(&call);
    check(device_host.stream_sync(side->stream, &err), &err);
    check(side->team->api->poll(side->comm, &err), &err);
    return clock_now_s() - start_s;
}

static double run_call(const struct side *side, struct comm_call call)
{
    return run_calls(side, call, 1);
}

static double all_reduce_s(const struct side *side, size_t bytes)
{
    double best_s = HUGE_VAL;
    for (int i = 0; i < REPEATS; i++) {
        run_call(side, (struct comm_call){ .kind = COMM_BARRIER });
        double time_s = run_call(
            side, (struct comm_call){ .kind = COMM_ALL_REDUCE, .count = bytes / sizeof(float) });
        best_s = fmin(best_s, time_s);
    }
    return best_s;
}

/* Measures half the time of a round trip. */
static double message_s(const struct side *side, size_t bytes)
{
    double best_s = HUGE_VAL;
    struct comm_call call = { .count = bytes, .element = ELEMENT_BYTES, .peer = 1 - side->rank };
    for (int i = 0; i < REPEATS; i++) {
        call.kind = side->rank == 0 ? COMM_SEND : COMM_RECV;
        double time_s = run_call(side, call);
        call.kind = side->rank == 0 ? COMM_RECV : COMM_SEND;
        time_s += run_call(side, call);
        best_s = fmin(best_s, time_s / 2);
    }
    return best_s;
}

static double copy_s(const struct side *side, size_t bytes)
{
    double best_s = HUGE_VAL;
    for (int i = 0; i < REPEATS; i++) {
        double start_s = clock_now_s();
        memcpy(side->out, side->in, bytes);
        best_s = fmin(best_s, clock_now_s() - start_s);
    }
    return best_s;
}

static void *run_pair(void *argument)
{
    struct side *side = argument;
    for (int i = 0; i < NUM_SIZES; i++) {
        size_t bytes = sizes_bytes[i];
        double reduced_s = all_reduce_s(side, bytes);
        double sent_s = message_s(side, bytes);
        if (side->rank > 0)
            continue;
        double copied_s = copy_s(side, bytes);
        double size = (double)bytes;
        printf("  %-6s %10zu %10.1f us %7.2f GB/s %10.1f us %7.2f GB/s %7.2f GB/s\n",
               side->team->api->name, bytes, 1e6 * reduced_s, 1e-9 * size / reduced_s, 1e6 * sent_s,
               1e-9 * size / sent_s, 1e-9 * size / copied_s);
    }
    return NULL;
}

/* Each all-reduce begins when all ranks have the previous result, so a rank that gets its result
 * early does not shorten the time. */
static double small_all_reduce_s(const struct side *side, size_t bytes)
{
    struct comm_call call = { .kind = COMM_ALL_REDUCE, .count = bytes / sizeof(float) };
    double best_s = HUGE_VAL;
    for (int i = 0; i < SMALL_REPEATS; i++)
        best_s = fmin(best_s, run_calls(side, call, IN_A_ROW) / IN_A_ROW);
    return best_s;
}

static void *run_small(void *argument)
{
    struct side *side = argument;
    double took_s[NUM_SMALL];
    for (int i = 0; i < NUM_SMALL; i++)
        took_s[i] = small_all_reduce_s(side, small_bytes[i]);
    if (side->rank > 0)
        return NULL;
    printf("  %-6s %10d", side->team->api->name, side->team->size);
    for (int i = 0; i < NUM_SMALL; i++)
        printf(" %10.1f us", 1e6 * took_s[i]);
    printf("\n");
    return NULL;
}

static void bench_threads(int size, void *(*run)(void *side))
{
    struct team team = {
        .api = &comm_local, .size = size, .run = run, .world = local_world_new(size)
    };
    struct side sides[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    for (int rank = 0; rank < size; rank++)
        sides[rank] = side_open(&team, rank);
    for (int rank = 1; rank < size; rank++)
        if (pthread_create(&threads[rank], NULL, run, &sides[rank]) != 0)
            exit(1);
    run(&sides[0]);
    for (int rank = 1; rank < size; rank++)
        pthread_join(threads[rank], NULL);
    for (int rank = 0; rank < size; rank++)
        side_close(&sides[rank]);
    local_world_free(team.world);
}

static void be_process(const struct team *team, int rank)
{
    struct side side = side_open(team, rank);
    team->run(&side);
    side_close(&side);
}

/* Must be called before this process starts threads. */
static void bench_processes(int size, void *(*run)(void *side))
{
    struct err err = { 0 };
    struct sockaddr_storage address;
    socklen_t address_bytes = sizeof address;
    struct team team = { .api = &comm_tcp, .size = size, .run = run };
    check(socket_address("127.0.0.1", 0, &address, &err), &err);
    team.meeting_fd = socket_listen(&address, &err);
    check(team.meeting_fd >= 0, &err);
    getsockname(team.meeting_fd, (struct sockaddr *)&address, &address_bytes);
    team.meeting_port = socket_port(&address);
    fflush(stdout);
    for (int rank = 1; rank < size; rank++)
        if (fork() == 0) {
            be_process(&team, rank);
            _exit(0);
        }
    be_process(&team, 0);
    while (wait(NULL) > 0)
        continue;
}

int main(void)
{
    printf("  %-6s %10s %26s %27s %12s\n", "ranks", "bytes", "all-reduce", "message", "memcpy");
    bench_processes(2, run_pair);
    bench_threads(2, run_pair);
    printf("  %-6s %10s", "ranks", "all-reduce");
    for (int i = 0; i < NUM_SMALL; i++)
        printf(" %11zu B", small_bytes[i]);
    printf("\n");
    for (int i = 0; i < NUM_TEAMS; i++)
        bench_processes(team_sizes[i], run_small);
    for (int i = 0; i < NUM_TEAMS; i++)
        bench_threads(team_sizes[i], run_small);
    return 0;
}
