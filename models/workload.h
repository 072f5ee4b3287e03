/* models/workload.h - models for tables about data parallelism. struct model cannot express them;
 * they have only a number of parameters (the size of the exchanged gradients) and FLOPs per
 * sample. */
#ifndef MODELS_WORKLOAD_H
#define MODELS_WORKLOAD_H

struct workload {
    const char *name;
    const char *summary;
    const char *source;
    double parameters;
    double forward_flops; /* FLOPs of one sample's forward; a training step needs three times as
                             many */
    const char *sample;
};
extern const struct workload workloads[];
extern const int num_workloads;
const struct workload *workload_find(const char *name); /* NULL: no workload has this name */

#endif
