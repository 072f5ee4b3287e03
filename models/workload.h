/* models/workload.h - models other than struct model's transformers, for tables about data
 * parallelism: their parameters, whose gradients are exchanged, and the FLOPs of a sample. */
#ifndef MODELS_WORKLOAD_H
#define MODELS_WORKLOAD_H

struct workload {
    const char *name;
    const char *summary;
    const char *source;
    double parameters;
    double forward_flops; /* for one sample; a training step takes three times as many */
    const char *sample;
};
extern const struct workload workloads[];
extern const int num_workloads;
const struct workload *workload_find(const char *name); /* NULL: none */

#endif
