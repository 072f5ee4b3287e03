/* sim/schedule/placement.h - on which pipeline stage each chunk of a model is.
 *
 * Chunks follow one another through the model: the first has the embedding, the last the head. They
 * are assigned to the stages in rounds, one chunk per stage and round. The first round goes down,
 * from stage 0 to the last. Under a mirrored rule each round is a copy of the whole model. */
#ifndef SIM_SCHEDULE_PLACEMENT_H
#define SIM_SCHEDULE_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>

enum direction { DIRECTION_DOWN, DIRECTION_UP }; /* to the next stage; to the stage before */

/* A rule that assigns chunks to stages. A generator points to the rule that its order needs. */
struct placement_rule {
    const char *name;
    enum direction (*direction)(int round);
    bool is_mirrored; /* each round is a copy of the whole model, with embedding and head */
};

/* Every second round goes back up. With two rounds, stage 0 has the first and the last chunk. */
extern const struct placement_rule placement_v;

/* Two copies of the model, one down and one up the stages: stage s has part s of the first copy and
 * part pp - 1 - s of the second. */
extern const struct placement_rule placement_mirrored;

struct placement {
    int num_stages, chunks_per_stage;
    const struct placement_rule *rule; /* NULL: all rounds go down */
};

enum { NO_STAGE = -1 };

/* Where one chunk is. */
struct chunk_place {
    int stage;
    int round; /* the chunk's index among the chunks of its stage, from 0, in the order of the model
                */
    enum direction direction;
    /* stages of the chunks before and after it; NO_STAGE: there is none */
    int previous_stage, next_stage;
    bool has_embedding, has_head;
};

static inline int placement_chunks(struct placement placement)
{
    return placement.num_stages * placement.chunks_per_stage;
}

/* Number of chunks per stage; a remainder is dropped. */
static inline int placement_rounds_of(int num_chunks, int num_stages)
{
    return num_chunks / num_stages;
}

static inline int placement_round(struct placement placement, int chunk)
{
    return chunk / placement.num_stages;
}

static inline enum direction placement_direction(struct placement placement, int round)
{
    return placement.rule ? placement.rule->direction(round) : DIRECTION_DOWN;
}

/* The stage of a chunk, and the chunk of a stage in a round, under a placement rule. */
int ruled_stage(const struct placement_rule *rule, int num_stages, int chunk);
int ruled_chunk(const struct placement_rule *rule, int num_stages, int stage, int round);
int ruled_boundary(const struct placement_rule *rule, int num_stages, int chunk);

/* The stage's chunk in this round. */
static inline int placement_chunk(struct placement placement, int stage, int round)
{
    return placement.rule ? ruled_chunk(placement.rule, placement.num_stages, stage, round)
                          : round * placement.num_stages + stage;
}

static inline int placement_stage(struct placement placement, int chunk)
{
    return placement.rule ? ruled_stage(placement.rule, placement.num_stages, chunk)
                          : chunk % placement.num_stages;
}

static inline bool placement_is_mirrored(struct placement placement)
{
    return placement.rule && placement.rule->is_mirrored;
}

/* The part of the model that a chunk holds; in a mirrored placement two chunks hold the same
 * part. */
static inline int placement_part(struct placement placement, int chunk)
{
    return placement_is_mirrored(placement) ? chunk % placement.num_stages : chunk;
}

static inline bool placement_has_embedding(struct placement placement, int chunk)
{
    return placement_part(placement, chunk) == 0;
}

static inline bool placement_has_head(struct placement placement, int chunk)
{
    int after = chunk + 1;
    return after == placement_chunks(placement) ||
           (placement_is_mirrored(placement) && after % placement.num_stages == 0);
}

static inline bool placement_has_end(struct placement placement, int chunk)
{
    return placement_has_embedding(placement, chunk) || placement_has_head(placement, chunk);
}

/* The stages of the embedding and of the head. In a mirrored placement both exist twice; stage 0
 * has one of each. */
static inline int placement_embedding_stage(struct placement placement)
{
    (void)placement;
    return 0;
}

static inline int placement_head_stage(struct placement placement)
{
    return placement.rule ? placement_stage(placement, placement_chunks(placement) - 1)
                          : placement.num_stages - 1;
}

/* Whether one stage holds embedding and head. */
static inline bool placement_ends_meet(struct placement placement)
{
    return placement_embedding_stage(placement) == placement_head_stage(placement);
}

static inline bool placement_is_end_stage(struct placement placement, int stage)
{
    return stage == placement_embedding_stage(placement) ||
           stage == placement_head_stage(placement);
}

static inline struct chunk_place placement_of(struct placement placement, int chunk)
{
    bool is_first = placement_has_embedding(placement, chunk);
    bool is_last = placement_has_head(placement, chunk);
    int round = placement_round(placement, chunk);
    return (struct chunk_place){
        .stage = placement_stage(placement, chunk),
        .round = round,
        .direction = placement_direction(placement, round),
        .previous_stage = is_first ? NO_STAGE : placement_stage(placement, chunk - 1),
        .next_stage = is_last ? NO_STAGE : placement_stage(placement, chunk + 1),
        .has_embedding = is_first,
        .has_head = is_last,
    };
}

/* --- boundaries: boundary s is between stages s and s + 1; the last one closes the ring ---- */

enum { NO_BOUNDARY = -1 };

static inline int placement_last_boundary(struct placement placement)
{
    return placement.num_stages - 1;
}

static inline int placement_boundary_before(struct placement placement, int stage)
{
    return (stage + placement.num_stages - 1) % placement.num_stages;
}

static inline int placement_stage_behind(struct placement placement, int boundary)
{
    return (boundary + 1) % placement.num_stages;
}

/* The boundary between a chunk (not the last) and the next; NO_BOUNDARY if both are on one
 * stage. */
static inline int placement_boundary(struct placement placement, int chunk)
{
    if (placement.rule)
        return ruled_boundary(placement.rule, placement.num_stages, chunk);
    return placement.num_stages == 1 ? NO_BOUNDARY : chunk % placement.num_stages;
}

/* Whether the message from a chunk to the next goes to the chunk with the head. */
static inline bool placement_is_last_message(struct placement placement, int chunk)
{
    return placement_has_head(placement, chunk + 1);
}

/* Whether messages cross the boundary. */
bool placement_uses_boundary(struct placement placement, int boundary);

#endif
