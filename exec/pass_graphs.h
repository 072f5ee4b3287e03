/* exec/pass_graphs.h - passes over chunks as graphs: issued once, launched from then on.
 *
 * A step issues the same passes again and again. One that begins with all its memory where it was
 * before, free memory too, goes on to read and write the same addresses, for a pass takes its
 * memory in a fixed order and reads what differs (exec/feed.h) from a fixed place. So a pass that
 * is seen for the first time runs by itself, which also lets products be tuned; when it comes again
 * it is captured, and from the third time on its graph is launched, after the code that issues it
 * has run once more for what it does on the host: what it takes and gives back, and what it keeps
 * of the microbatch. What is captured is what a chunk computes; messages between stages, waits for
 * other streams and the tokens' copy stay in front of it and behind it. */
#ifndef EXEC_PASS_GRAPHS_H
#define EXEC_PASS_GRAPHS_H

#include "exec/chunk.h"

/* Graphs that are kept of a chunk's passes of one kind. When more different ones come, the one that
 * was not used for longest goes. */
enum { GRAPHS_OF_A_PASS = 8 };

struct pass_graphs;

/* Borrows both; `chunks` is where those lie that passes are over. */
struct pass_graphs *pass_graphs_new(struct machine *machine, const struct chunk *chunks,
                                    int num_chunks);
/* Accepts NULL. The machine's compute stream has come to its end. */
void pass_graphs_free(struct pass_graphs *graphs);

/* As chunk_pass. The machine's err is set, and its device stopped, when a pass turns out not to be
 * what its graph is: nothing wrong is launched. */
void *pass_graphs_run(struct pass_graphs *graphs, const struct chunk_call *call);

/* How often passes ran, by how. */
struct pass_counts {
    long issued, captured, replayed;
};
struct pass_counts pass_graphs_counts(const struct pass_graphs *graphs);

#endif
