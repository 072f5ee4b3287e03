/* exec/chunk.h - one chunk of the model and one microbatch: the parts in a row, with what recompute
 * drops in between. */
#ifndef EXEC_CHUNK_H
#define EXEC_CHUNK_H

#include "exec/machine.h"
#include "exec/store.h"

/* A run of parts: with the embedding at the model's beginning, with the head at its end. */
struct chunk {
    struct part *parts;
    int num_parts;
    struct store **stores; /* of its parts, each once */
    int num_stores;
};

/* Lets the parts point at what their stores hold now. */
void chunk_show_stores(struct chunk *chunk);

/* What is kept of one microbatch, a record for each part. */
struct chunk_record {
    struct record *parts;
    const struct microbatch *microbatch;
};

/* Takes the chunk's input and returns its output, as machine_forward. */
void *chunk_forward(struct machine *machine, const struct chunk *chunk,
                    const struct chunk_record *record, void *input);
/* As machine_backward; recomputes what was dropped, part by part. After the weights' gradients
 * nothing is kept any more. */
void *chunk_backward(struct machine *machine, const struct chunk *chunk,
                     const struct chunk_record *record, void *output_gradient,
                     enum gradients gradients);

#endif
