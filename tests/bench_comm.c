/* How fast two ranks talk beside a plain copy of the same bytes: threads through memory, processes
 * over the loopback. Best of several runs; bytes of the message over its time, so an all-reduce
 * of two ranks, which sends half the message twice each way, can reach what a copy reaches at most.
 */
#include "base/clock.h"
#include "exec/comm.h"
#include "exec/socket.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes_bytes[] = { 64, 4 << 10, 64 << 10, 1 << 20, 16 << 20 };
enum { NUM_SIZES = sizeof sizes_bytes / sizeof *sizes_bytes, REPEATS = 20, NUM_RANKS = 2 };

struct pair {
    const struct comm_api *api;
    struct local_world *world;
    int meeting_fd, meeting_port;
};

struct side {
    const struct pair *pair;
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

static struct side side_open(const struct pair *pair, int rank)
{
    static const int ranks[NUM_RANKS] = { 0, 1 };
    struct err err = { 0 };
    struct side side = { .pair = pair, .rank = rank };
    struct place place = { .launcher = "bench",
                           .rank = rank,
                           .size = NUM_RANKS,
                           .meeting_host = "127.0.0.1",
                           .meeting_port = pair->meeting_port,
                           .meeting_fd = rank == 0 ? pair->meeting_fd : -1 };
    size_t most = sizes_bytes[NUM_SIZES - 1];
    side.device = device_host.open(&(struct device_options){ .arena_bytes = 2 * most }, &err);
    check(side.device != NULL, &err);
    side.in = device_host.alloc(side.device, NULL, most, &err);
    side.out = device_host.alloc(side.device, NULL, most, &err);
    side.stream = device_host.stream_new(side.device, "bench", &err);
    side.comm = pair->api->open(
        &(struct comm_options){
            .place = &place, .device = &device_host, .local_world = pair->world, .patience_s = 10 },
        &err);
    check(side.comm != NULL, &err);
    side.group = pair->api->group_new(side.comm, ranks, NUM_RANKS, &err);
    check(side.group != NULL, &err);
    return side;
}

static void side_close(struct side *side)
{
    device_host.stream_free(side->stream);
    side->pair->api->group_free(side->group);
    side->pair->api->close(side->comm);
    device_host.close(side->device);
}

static double run_call(const struct side *side, struct comm_call call)
{
    struct err err = { 0 };
    call.group = side->group;
    call.stream = side->stream;
    call.in = side->in;
    call.out = side->out;
    double start_s = clock_now_s();
    side->pair->api->issue(&call);
    check(device_host.stream_sync(side->stream, &err), &err);
    check(side->pair->api->poll(side->comm, &err), &err);
    return clock_now_s() - start_s;
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

/* Half of there and back. */
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

static void *run_side(void *argument)
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
               side->pair->api->name, bytes, 1e6 * reduced_s, 1e-9 * size / reduced_s, 1e6 * sent_s,
               1e-9 * size / sent_s, 1e-9 * size / copied_s);
    }
    return NULL;
}

static void bench_threads(void)
{
    struct pair pair = { .api = &comm_local, .world = local_world_new(NUM_RANKS) };
    struct side sides[NUM_RANKS] = { side_open(&pair, 0), side_open(&pair, 1) };
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_side, &sides[1]) != 0)
        exit(1);
    run_side(&sides[0]);
    pthread_join(thread, NULL);
    side_close(&sides[0]);
    side_close(&sides[1]);
    local_world_free(pair.world);
}

/* Before this process has threads. */
static void bench_processes(void)
{
    struct err err = { 0 };
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    struct pair pair = { .api = &comm_tcp };
    check(socket_address("127.0.0.1", 0, &address, &err), &err);
    pair.meeting_fd = socket_listen(&address, &err);
    check(pair.meeting_fd >= 0, &err);
    getsockname(pair.meeting_fd, (struct sockaddr *)&address, &size);
    pair.meeting_port = socket_port(&address);
    fflush(stdout);
    pid_t child = fork();
    struct side side = side_open(&pair, child == 0);
    run_side(&side);
    side_close(&side);
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
}

int main(void)
{
    printf("  %-6s %10s %26s %27s %12s\n", "ranks", "bytes", "all-reduce", "message", "memcpy");
    bench_processes();
    bench_threads();
    return 0;
}
