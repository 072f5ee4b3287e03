/* Which stage has which chunk. Chunks are assigned in rounds, one chunk per stage and round; a rule
 * may let rounds go up the stages again. */
#include "sim/schedule/placement.h"

static enum direction down_and_up(int round)
{
    return round % 2 == 0 ? DIRECTION_DOWN : DIRECTION_UP;
}

const struct placement_rule placement_v = { "v", down_and_up, false };
const struct placement_rule placement_mirrored = { "mirrored", down_and_up, true };

/* In a round that goes up, stages are counted from the other end. */
static int turned(const struct placement_rule *rule, int num_stages, int place, int round)
{
    return rule->direction(round) == DIRECTION_UP ? num_stages - 1 - place : place;
}

int ruled_stage(const struct placement_rule *rule, int num_stages, int chunk)
{
    return turned(rule, num_stages, chunk % num_stages, chunk / num_stages);
}

int ruled_chunk(const struct placement_rule *rule, int num_stages, int stage, int round)
{
    return round * num_stages + turned(rule, num_stages, stage, round);
}

/* Within a round, consecutive chunks are one stage apart. Between rounds they are on the two ends
 * of the pipeline, or on the same stage if the direction changes. */
int ruled_boundary(const struct placement_rule *rule, int num_stages, int chunk)
{
    int from = ruled_stage(rule, num_stages, chunk);
    int to = ruled_stage(rule, num_stages, chunk + 1);
    if (from == to)
        return NO_BOUNDARY;
    if ((chunk + 1) % num_stages == 0)
        return num_stages - 1;
    return from < to ? from : to;
}

bool placement_uses_boundary(struct placement placement, int boundary)
{
    for (int chunk = 0; chunk + 1 < placement_chunks(placement); chunk++)
        if (placement_boundary(placement, chunk) == boundary)
            return true;
    return false;
}
