/* Graphs on the host: a list of calls with copies of their arguments. */
#include "exec/device/host_graph.h"

#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct graph {
    struct host_taker taker; /* must be the first member, as it is cast to a graph */
    struct host_streams *shared;
    struct host_work *works;
    size_t count, capacity;
    size_t num_verified; /* number of calls verified so far */
    bool differs;        /* during verification: the work differed */
};

static void capture(struct host_taker *taker, void (*function)(void *args), const void *args,
                    size_t size)
{
    struct graph *graph = (struct graph *)taker;
    if (graph->count == graph->capacity) {
        graph->capacity = graph->capacity > 0 ? 2 * graph->capacity : 64;
        graph->works = arena_grow(graph->works, graph->capacity * sizeof *graph->works);
    }
    struct host_work *work = &graph->works[graph->count++];
    work->function = function;
    if (size > 0)
        memcpy(work->args, args, size);
}

void host_capture_begin(struct stream *stream)
{
    struct graph *graph = arena_grow(NULL, sizeof *graph);
    *graph = (struct graph){ .taker = { capture }, .shared = host_stream_shared(stream) };
    struct host_taker *before = host_stream_divert(stream, &graph->taker);
    (void)before;
    assert(!before && "one graph at a time");
}

struct graph *host_capture_end(struct stream *stream)
{
    return (struct graph *)host_stream_divert(stream, NULL);
}

struct launched {
    struct graph *graph;
};

/* Runs each function on a copy of its arguments, as functions may change them. */
static void run_graph(void *args)
{
    const struct graph *graph = ((const struct launched *)args)->graph;
    for (size_t i = 0; i < graph->count; i++) {
        struct host_work work = graph->works[i];
        host_streams_run(graph->shared, &work);
    }
}

void host_graph_launch(struct stream *stream, struct graph *graph)
{
    struct launched launched = { graph };
    host_stream_call(stream, run_graph, &launched, sizeof launched);
}

void host_graph_free(struct graph *graph)
{
    if (!graph)
        return;
    free(graph->works);
    free(graph);
}

static void compare(struct host_taker *taker, void (*function)(void *args), const void *args,
                    size_t size)
{
    struct graph *graph = (struct graph *)taker;
    (void)args, (void)size;
    graph->differs = graph->differs || graph->num_verified == graph->count ||
                     graph->works[graph->num_verified++].function != function;
}

void host_graph_verify_begin(struct stream *stream, struct graph *graph)
{
    graph->taker.take = compare;
    graph->num_verified = 0;
    graph->differs = false;
    host_stream_divert(stream, &graph->taker);
}

bool host_graph_verify_end(struct stream *stream)
{
    const struct graph *graph = (struct graph *)host_stream_divert(stream, NULL);
    return !graph->differs && graph->num_verified == graph->count;
}
