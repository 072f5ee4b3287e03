/* exec/pass_graphs.h - runs passes over chunks as graphs, which are captured once and then
 * launched.
 *
 * A step issues the same passes many times. A pass takes its memory in a fixed order and reads its
 * microbatch from a fixed place (exec/feed.h). So when it starts with the same used and free memory
 * as before, it reads and writes the same addresses. The first time a pass is seen it is issued
 * directly, which also tunes its matrix products; the second time it is captured; from the third
 * time on its graph is launched. Only passes that reduce gradients piece by piece are always issued
 * directly, as a graph cannot hold their collectives. Before a launch the issuing code still runs
 * on the host for its bookkeeping: allocation of memory, and records of the microbatch. Only a
 * chunk's compute is captured. Messages between stages, waits for other streams and the copy of the
 * tokens are issued before and after it. */
#ifndef EXEC_PASS_GRAPHS_H
#define EXEC_PASS_GRAPHS_H

#include "exec/chunk.h"

/* Number of graphs kept per chunk and kind of pass. A new graph replaces the least recently used
 * one. */
enum { GRAPHS_OF_A_PASS = 8 };

struct pass_graphs;

/* Passes run over these chunks. Machine and chunks are borrowed. */
struct pass_graphs *pass_graphs_new(struct machine *machine, const struct chunk *chunks,
                                    int num_chunks);
/* Accepts NULL. The machine's compute stream must have finished. */
void pass_graphs_free(struct pass_graphs *graphs);

/* Runs a pass like chunk_pass. When a pass differs from its graph, the graph is not launched, the
 * machine's err is set and its device is stopped. */
void *pass_graphs_run(struct pass_graphs *graphs, const struct chunk_call *call);

/* Number of passes that were issued directly, captured, and launched as graphs. */
struct pass_counts {
    long issued, captured, replayed;
};
struct pass_counts pass_graphs_counts(const struct pass_graphs *graphs);

#endif
