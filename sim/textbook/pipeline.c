#include "sim/textbook/pipeline.h"

#include <math.h>

/* (p-1)/(v m): the first microbatch takes p-1 stage times to reach the end, v times less in chunks;
 * the work is m stage times. Narayanan et al. 2021, section 2.2. */
double textbook_bubble_of_useful(struct textbook_pipeline pipeline)
{
    double work = (double)pipeline.chunks * pipeline.microbatches;
    return (pipeline.stages - 1) / work;
}

/* (p-1)/(v m + p-1): the same idle time over work and idle time. Huang et al. 2019, section 2.3. */
double textbook_bubble_of_total(struct textbook_pipeline pipeline)
{
    double work = (double)pipeline.chunks * pipeline.microbatches;
    double idle = pipeline.stages - 1;
    return idle / (work + idle);
}

/* The first of `exposed` microbatches crosses all p v - 1 boundaries; each of the others keeps the
 * busiest link for v messages more; then the gradients come back. */
static double crossings_s(struct textbook_pipeline pipeline, double message_s, int exposed)
{
    if (pipeline.stages == 1)
        return 0;
    double boundaries = (double)pipeline.stages * pipeline.chunks - 1;
    double queued = (double)pipeline.chunks * (exposed - 1);
    return 2 * (boundaries + queued) * message_s;
}

/* 2 (p v - 1) c: all but one microbatch's transfers are hidden by the work of others. Exact for
 * Megatron's interleaved schedule, too little for 1F1B that blocks on transfers. */
double textbook_pipeline_low_s(struct textbook_pipeline pipeline, double message_s)
{
    return crossings_s(pipeline, message_s, 1);
}

/* 2 (p v - 1 + v (m-1)) c: none is hidden. */
double textbook_pipeline_high_s(struct textbook_pipeline pipeline, double message_s)
{
    return crossings_s(pipeline, message_s, pipeline.microbatches);
}

/* Stage 0 starts p microbatches before the first returns, each through l/p layers: l. Interleaving
 * adds p-1 chunks of l/(p v): l (1 + (p-1)/(p v)). Korthikanti et al. 2022, section 4.2. No more
 * than m microbatches are ever in flight. */
double textbook_layers_in_flight(struct textbook_pipeline pipeline, int layers)
{
    double stages = pipeline.stages;
    double chunks = pipeline.chunks;
    double extra = pipeline.chunks > 1 ? (stages - 1) / (stages * chunks) : 0;
    double all_microbatches = pipeline.microbatches / stages;
    return layers * fmin(1 + extra, all_microbatches);
}
