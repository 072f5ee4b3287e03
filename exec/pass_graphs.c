/* Runs passes over chunks, from the third time on as captured graphs. A pass can use a graph if it
 * begins with the same memory used and free as when the graph was captured. */
#include "exec/pass_graphs.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

/* The state at the beginning of a pass: equal states allow the same graph. */
struct beginning {
    uint64_t layout;        /* layout hash of free memory */
    const void *flow;       /* input of the pass */
    struct record *records; /* of the microbatch, one per layer, embedding, head */
};

struct pass_graph {
    struct beginning beginning;
    struct graph *graph; /* NULL: the pass was seen at most once */
    uint64_t taken;      /* value of machine.taken after the capture */
    long used;           /* number of the pass that last used it; 0: never */
};

/* The graphs of one chunk and opcode. */
struct pass_set {
    struct pass_graph at[GRAPHS_OF_A_PASS];
};

struct pass_graphs {
    struct machine *machine;
    const struct chunk *chunks;
    int num_chunks;
    struct pass_set *sets; /* [chunks x NUM_PASSES] */
    struct pass_counts counts;
    long passes;
};

/* --- finding a graph ---------------------------------------------------------------------- */

static size_t records_bytes(const struct chunk_call *call)
{
    return sizeof(struct record) * (size_t)call->chunk->num_pieces;
}

static struct beginning beginning_of(const struct machine *m, const struct chunk_call *call)
{
    return (struct beginning){ m->device_api->memory(m->device).layout, call->flow,
                               call->record->pieces };
}

/* Compares bytes: records consist of pointers only, without padding. */
static bool is_equal(const struct beginning *a, const struct beginning *b, size_t bytes)
{
    return a->layout == b->layout && a->flow == b->flow &&
           memcmp(a->records, b->records, bytes) == 0;
}

static struct pass_set *set_of(const struct pass_graphs *graphs, const struct chunk_call *call)
{
    size_t chunk = (size_t)(call->chunk - graphs->chunks);
    return &graphs->sets[chunk * NUM_PASSES + (size_t)call->op];
}

/* The pass with this beginning, or NULL. */
static struct pass_graph *find(struct pass_set *set, const struct beginning *beginning,
                               size_t bytes)
{
    for (int i = 0; i < GRAPHS_OF_A_PASS; i++)
        if (set->at[i].used > 0 && is_equal(&set->at[i].beginning, beginning, bytes))
            return &set->at[i];
    return NULL;
}

/* Frees a graph. It waits first, as a launch may still be running. */
static void drop_graph(struct machine *m, struct pass_graph *pass)
{
    struct err later_err = { 0 };
    if (!pass->graph)
        return;
    m->device_api->stream_sync(m->compute, &later_err);
    m->device_api->graph_free(pass->graph);
    pass->graph = NULL;
}

/* Replaces the least recently used entry. */
static void remember(struct pass_graphs *graphs, struct pass_set *set,
                     const struct beginning *beginning, size_t bytes)
{
    struct pass_graph *oldest = &set->at[0];
    for (int i = 1; i < GRAPHS_OF_A_PASS; i++)
        if (set->at[i].used < oldest->used)
            oldest = &set->at[i];
    drop_graph(graphs->machine, oldest);
    struct record *records = arena_grow(oldest->beginning.records, bytes);
    memcpy(records, beginning->records, bytes);
    *oldest = (struct pass_graph){ .beginning = { beginning->layout, beginning->flow, records },
                                   .used = graphs->passes };
}

/* --- running one -------------------------------------------------------------------------- */

static void *capture(struct pass_graphs *graphs, struct pass_graph *pass,
                     const struct chunk_call *call)
{
    struct machine *m = graphs->machine;
    m->device_api->capture_begin(m->compute);
    void *flow = chunk_pass(m, call);
    pass->graph = m->device_api->capture_end(m->compute);
    pass->taken = m->taken;
    if (pass->graph)
        m->device_api->graph_launch(m->compute, pass->graph);
    graphs->counts.captured++;
    return flow;
}

static void *replay(struct pass_graphs *graphs, const struct pass_graph *pass,
                    const struct chunk_call *call)
{
    struct machine *m = graphs->machine;
    m->device_api->graph_verify_begin(m->compute, pass->graph);
    void *flow = chunk_pass(m, call);
    bool is_same = m->device_api->graph_verify_end(m->compute) && m->taken == pass->taken;
    graphs->counts.replayed++;
    if (is_same) {
        m->device_api->graph_launch(m->compute, pass->graph);
        return flow;
    }
    if (m->err.code == ERR_NONE)
        err_set(&m->err, ERR_SYSTEM, "graphs",
                "a pass differs from its captured graph; --graphs off runs without graphs");
    m->device_api->abort(m->device);
    return NULL;
}

void *pass_graphs_run(struct pass_graphs *graphs, const struct chunk_call *call)
{
    struct machine *m = graphs->machine;
    if (chunk_reduces_whole(call)) { /* the pass contains collectives, which graphs cannot hold */
        graphs->counts.issued++;
        return chunk_pass(m, call);
    }
    struct pass_set *set = set_of(graphs, call);
    struct beginning beginning = beginning_of(m, call);
    struct pass_graph *pass = m->log ? NULL : find(set, &beginning, records_bytes(call));
    graphs->passes++;
    m->taken = 0;
    if (pass) {
        pass->used = graphs->passes;
        return pass->graph ? replay(graphs, pass, call) : capture(graphs, pass, call);
    }
    graphs->counts.issued++;
    if (!m->log) /* with a log, ops are timed one by one and graphs are not used */
        remember(graphs, set, &beginning, records_bytes(call));
    return chunk_pass(m, call);
}

struct pass_counts pass_graphs_counts(const struct pass_graphs *graphs)
{
    return graphs->counts;
}

/* --- opening and closing ------------------------------------------------------------------ */

struct pass_graphs *pass_graphs_new(struct machine *machine, const struct chunk *chunks,
                                    int num_chunks)
{
    size_t sets = (size_t)num_chunks * NUM_PASSES;
    struct pass_graphs *graphs = arena_grow(NULL, sizeof *graphs);
    *graphs =
        (struct pass_graphs){ .machine = machine, .chunks = chunks, .num_chunks = num_chunks };
    graphs->sets =
        memset(arena_grow(NULL, sets * sizeof *graphs->sets), 0, sets * sizeof *graphs->sets);
    return graphs;
}

void pass_graphs_free(struct pass_graphs *graphs)
{
    if (!graphs)
        return;
    for (int s = 0; s < graphs->num_chunks * NUM_PASSES; s++)
        for (int i = 0; i < GRAPHS_OF_A_PASS; i++) {
            graphs->machine->device_api->graph_free(graphs->sets[s].at[i].graph);
            free(graphs->sets[s].at[i].beginning.records);
        }
    free(graphs->sets);
    free(graphs);
}
