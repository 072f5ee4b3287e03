#include "sim/textbook/pipeline.h"

#include <math.h>

/* Idle stage times beside the v m of work, in chunks of a stage: the first microbatch takes p-1 to
 * reach the end. One after another, each of the m has the stage idle while it is on the p-1 others.
 * With weight gradients apart, a third of a stage time each like forward and backward, they fill
 * two thirds of the p-1 (p-1)(F + B - W), or all of them, (p-1)(F + B - 2W). Qi et al. 2023,
 * table 2. */
static double idle_chunks(struct textbook_pipeline pipeline)
{
    double others = pipeline.stages - 1;
    switch (pipeline.schedule) {
    case TEXTBOOK_NAIVE:
        return others * pipeline.microbatches;
    case TEXTBOOK_ZB_H1:
        return others / 3;
    case TEXTBOOK_ZB_H2:
        return 0;
    case TEXTBOOK_1F1B:
    case TEXTBOOK_GPIPE:
    case NUM_TEXTBOOK_SCHEDULES:
        break;
    }
    return others;
}

/* (p-1)/(v m): the first microbatch takes p-1 stage times to reach the end, v times less in chunks;
 * the work is m stage times. Narayanan et al. 2021, section 2.2. */
double textbook_bubble_of_useful(struct textbook_pipeline pipeline)
{
    double work = (double)pipeline.chunks * pipeline.microbatches;
    return idle_chunks(pipeline) / work;
}

/* (p-1)/(v m + p-1): the same idle time over work and idle time. Huang et al. 2019, section 2.3. */
double textbook_bubble_of_total(struct textbook_pipeline pipeline)
{
    double work = (double)pipeline.chunks * pipeline.microbatches;
    double idle = idle_chunks(pipeline);
    return idle / (work + idle);
}

/* The first of `exposed` microbatches crosses all p v - 1 boundaries; each of the others keeps the
 * busiest link for v messages more; then the gradients come back. Microbatches that run one after
 * another cross all boundaries alone, each of them. */
static double crossings_s(struct textbook_pipeline pipeline, double message_s, int exposed)
{
    if (pipeline.stages == 1)
        return 0;
    double boundaries = (double)pipeline.stages * pipeline.chunks - 1;
    if (pipeline.schedule == TEXTBOOK_NAIVE)
        return 2 * boundaries * pipeline.microbatches * message_s;
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
 * than m microbatches are ever in flight, which are GPipe's (Huang et al. 2019, section 2.3); one
 * is where they run one after another, and 2p-1 fill ZB-H2's bubble (Qi et al. 2023, table 2). */
double textbook_layers_in_flight(struct textbook_pipeline pipeline, int layers)
{
    double stages = pipeline.stages;
    double chunks = pipeline.chunks;
    double started = stages;
    if (pipeline.chunks > 1)
        started += (stages - 1) / chunks;
    if (pipeline.schedule == TEXTBOOK_GPIPE)
        started = pipeline.microbatches;
    if (pipeline.schedule == TEXTBOOK_NAIVE)
        started = 1;
    if (pipeline.schedule == TEXTBOOK_ZB_H2)
        started = 2 * stages - 1;
    return layers / stages * fmin(started, pipeline.microbatches);
}
