/* sim/textbook/estimate.h - a training step by the textbook formulas, part by part.
 *
 * `explain` prints it next to the detailed model's values. It has no fitted constants; only
 * pipeline transfers overlap compute, and all GPUs and stages are equal. Every function is pure. */
#ifndef SIM_TEXTBOOK_ESTIMATE_H
#define SIM_TEXTBOOK_ESTIMATE_H

#include "base/field.h"
#include "sim/textbook/exchange.h"
#include "sim/textbook/memory.h"
#include "sim/textbook/pipeline.h"

struct textbook_setup {
    const struct model *model;
    /* ranks along each axis; `chunks` is the number per stage */
    int tensor, pipeline, chunks, data;
    enum textbook_schedule schedule;
    int microbatch; /* sequences per microbatch */
    int batch;      /* sequences per step, a multiple of data x microbatch */
    int seq;        /* tokens per sequence */
    int zero;       /* 0..3 */
    int shards;     /* ranks that ZeRO shards over, a divisor of data; 0: all */
    struct textbook_recipe recipe;
    double value_bytes;      /* bytes of an element of an activation */
    double reduce_bytes;     /* bytes per parameter that data ranks exchange */
    enum textbook_keep keep; /* activations that a layer keeps if it is not recomputed */
    /* r: share of the layers that are recomputed; training takes (6 + 2 r) P FLOPs per token */
    double recomputed;
    int interval;            /* K: recomputed layers per kept input; 0 means 1 */
    double peak_flops_per_s; /* of one GPU */
    double utilization;      /* share of peak while computing, without communication and bubble */
    struct textbook_link tensor_link, pipeline_link, data_link;
    struct exchange exchange;    /* exchange of data ranks when there is no ZeRO */
    struct textbook_wires wires; /* links of the exchange */
};

struct textbook_pipeline textbook_pipeline_of(const struct textbook_setup *setup);
struct textbook_batch textbook_microbatch_of(const struct textbook_setup *setup);
double
textbook_boundary_bytes(const struct textbook_setup *setup); /* bytes from one layer to the next */
/* link between the ranks that shard one copy of the state */
struct textbook_link textbook_shard_link(const struct textbook_setup *setup);
/* The gradients that a rank exchanges: those of its layers' matrices and of its rows of embedding
 * and head. `load` points to `tensors`, so the struct must not be copied. */
struct textbook_load {
    struct exchange_load load;
    struct exchange_tensor tensors[4];
};
void textbook_fill_load(const struct textbook_setup *setup, struct textbook_load *out);

/* Every part of the estimate. Memory is that of a rank on pipeline stage 0. */
struct textbook_estimate {
    double parameters;
    double tokens; /* per step */
    double flops;
    double microbatches; /* per pipeline */

    double compute_s;
    double bubble_s;
    double tensor_comm_s;
    double data_comm_s;
    double pipeline_comm_low_s;
    double pipeline_comm_high_s;
    double step_s;      /* sum of the times, with pipeline_comm_low_s */
    double step_high_s; /* sum of the times, with pipeline_comm_high_s */
    double tokens_per_s;

    double weights_bytes;
    double gradients_bytes;
    double optimizer_bytes;
    double activations_bytes;
    double working_set_bytes; /* activations of the layers that are being recomputed */
    double memory_bytes;      /* sum of all memory */
};

/* The members of the estimate in order; each field's `doc` is its formula. fields_write() writes an
 * estimate as JSON. */
extern const struct field textbook_estimate_fields[];
extern const size_t num_textbook_estimate_fields;

struct textbook_estimate textbook_estimate(const struct textbook_setup *setup);

#endif
