/* exec/pass_graphs.h - passes over chunks as graphs: issued once, launched from then on.
 *
 * A step issues the same passes many times. A pass takes its memory in a fixed order and reads its
 * microbatch from a fixed place (exec/feed.h). So when it starts with the same used and free memory
 * as before, it reads and writes the same addresses. The first time a pass is seen it is issued
 * directly, which also tunes its products; the second time it is captured; from the third time on
 * its graph is launched. Before a launch the issuing code still runs on the host, for its
 * bookkeeping: memory taken and given back, and records of the microbatch. Only a chunk's compute
 * is captured; messages between stages, waits for other streams and the copy of the tokens stay
 * before and after it. */
#ifndef EXEC_PASS_GRAPHS_H
#define EXEC_PASS_GRAPHS_H

#include "exec/chunk.h"

/* Graphs kept per chunk and kind of pass; the least recently used is dropped for a new one. */
enum { GRAPHS_OF_A_PASS = 8 };

struct pass_graphs;

/* Borrows both; passes run over these chunks. */
struct pass_graphs *pass_graphs_new(struct machine *machine, const struct chunk *chunks,
                                    int num_chunks);
/* Accepts NULL. The machine's compute stream must have finished. */
void pass_graphs_free(struct pass_graphs *graphs);

/* As chunk_pass. When a pass differs from its graph, the graph is not launched, the machine's err
 * is set and its device is stopped. */
void *pass_graphs_run(struct pass_graphs *graphs, const struct chunk_call *call);

/* How many passes were issued, captured and replayed. */
struct pass_counts {
    long issued, captured, replayed;
};
struct pass_counts pass_graphs_counts(const struct pass_graphs *graphs);

#endif
