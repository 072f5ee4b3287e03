/* Bubble, exposed transfers and layers in flight of a pipeline of equal stages: p stages of v
 * chunks each run m microbatches. */
#include "sim/textbook/pipeline.h"

#include <math.h>

/* Idle time of a stage in units of the time of one microbatch on one chunk; its work is v m such
 * units (p stages, v chunks each, m microbatches). 1F1B and GPipe: p-1, as the first microbatch
 * needs that long to reach the last stage. Naive: m (p-1), as the stage is idle while each
 * microbatch is on the p-1 other stages. With forward F, input gradient B and weight gradient W of
 * a third each, ZB-H1 idles for (p-1)(F + B - W), a third of p-1, and ZB-H2 for (p-1)(F + B - 2W),
 * which is 0. Qi et al. 2023, table 2. */
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

/* (p-1)/(v m): the first microbatch needs p-1 stage times, divided by v with v chunks, to reach the
 * last stage; the work is m stage times. Narayanan et al. 2021, section 2.2. */
double textbook_bubble_of_useful(struct textbook_pipeline pipeline)
{
    double work = (double)pipeline.chunks * pipeline.microbatches;
    return idle_chunks(pipeline) / work;
}

/* (p-1)/(v m + p-1): the idle time relative to work plus idle time. Huang et al. 2019, section
 * 2.3. */
double textbook_bubble_of_total(struct textbook_pipeline pipeline)
{
    double work = (double)pipeline.chunks * pipeline.microbatches;
    double idle = idle_chunks(pipeline);
    return idle / (work + idle);
}

/* The first of `exposed` microbatches crosses all p v - 1 boundaries; each of the others occupies
 * the busiest link for v further messages; the gradients then come back the same way. In the naive
 * schedule microbatches cross the boundaries one after another, so all transfers are exposed. */
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

/* 2 (p v - 1) c, with c the time of one transfer: the transfers of all microbatches but one are
 * overlapped. Exact for Megatron's interleaved schedule, too low for 1F1B with blocking
 * transfers. */
double textbook_pipeline_low_s(struct textbook_pipeline pipeline, double message_s)
{
    return crossings_s(pipeline, message_s, 1);
}

/* 2 (p v - 1 + v (m-1)) c: no transfer is overlapped. */
double textbook_pipeline_high_s(struct textbook_pipeline pipeline, double message_s)
{
    return crossings_s(pipeline, message_s, pipeline.microbatches);
}

/* Stage 0 starts p microbatches before the first returns, and each keeps l/p layers there: l in
 * total. Interleaving adds p-1 chunks of l/(p v) layers: l (1 + (p-1)/(p v)). Korthikanti et al.
 * 2022, section 4.2. At most m microbatches are in flight, as in GPipe (Huang et al. 2019, section
 * 2.3); the naive schedule has one, and ZB-H2 has 2p-1 (Qi et al. 2023, table 2). */
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
