/* models/workload.h - models that are no transformer of ours, as tables of data parallelism need
 * them: what is exchanged, and the work of a sample. */
#ifndef MODELS_WORKLOAD_H
#define MODELS_WORKLOAD_H

struct workload {
    const char *name;
    const char *summary;
    const char *source;
    double parameters;
    double forward_flops; /* of one sample; training takes three times that */
    const char *sample;
};
extern const struct workload workloads[];
extern const int num_workloads;
const struct workload *workload_find(const char *name); /* NULL: none */

#endif
