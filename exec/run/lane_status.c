/* Tells the watchdog which instruction each lane is executing. A lane is an in-order queue of a
 * rank's instructions, such as compute or one direction of messages. */
#include "exec/run/lane_status.h"

#include "exec/run/rank_state.h"

#include <stdio.h>

static const char *const opcode_names[NUM_OPCODES] = {
#define X(name, lane, text, form, meaning) [INSTR_##name] = #name,
    INSTR_OPCODES(X)
#undef X
};

/* --- naming instructions ------------------------------------------------------------------ */

/* The peer rank of a message. */
static int peer_of(const struct rank *rank, const struct instr *instr)
{
    const struct group *link = rank->groups.of[rank_link(instr)];
    return link->ranks[!instr_is_receive(instr->op)];
}

static bool is_message(enum opcode op)
{
    enum lane lane = opcode_infos[op].lane;
    return lane != LANE_COMPUTE && lane != LANE_DATA;
}

static const char *name_of(struct rank *rank, const struct instr *instr)
{
    char words[80];
    size_t length = (size_t)snprintf(words, sizeof words, "%s", opcode_names[instr->op]);
    if (instr->chunk >= 0)
        length += (size_t)snprintf(words + length, sizeof words - length, " c%d", instr->chunk);
    if (instr->microbatch >= 0)
        length +=
            (size_t)snprintf(words + length, sizeof words - length, " mb%d", instr->microbatch);
    if (is_message(instr->op))
        snprintf(words + length, sizeof words - length, " %s %d",
                 instr_is_receive(instr->op) ? "from" : "to", peer_of(rank, instr));
    return arena_text(&rank->arena, words);
}

void lane_status_describe(void *context, int lane, const void *at, struct text *out)
{
    (void)context, (void)lane;
    text_add(out, "%s", (const char *)at);
}

/* --- progress marks on streams ------------------------------------------------------------ */

/* Number of arrivals per step. An arrival is the beginning or end of an instruction. */
static uint32_t arrivals_of_step(const struct rank *rank)
{
    return 2 * (uint32_t)rank->list->count;
}

/* The number of the arrival at which instruction i begins, from 1. Its end has the next number.
 * Numbers increase from step to step, so a reader sees that a step has passed. */
static uint32_t arrival_at(const struct rank *rank, int i)
{
    uint32_t in_step = arrivals_of_step(rank), most_steps = UINT32_MAX / in_step;
    return (uint32_t)(rank->steps_begun % most_steps) * in_step + 2 * (uint32_t)i + 1;
}

/* The name of the instruction that begins at this arrival; NULL if the arrival is an end. */
static const char *name_at(const struct rank *rank, uint32_t arrival)
{
    uint32_t in_step = (arrival - 1) % arrivals_of_step(rank);
    return in_step % 2 == 0 ? rank->names[in_step / 2] : NULL;
}

static void look(void *context)
{
    struct rank *rank = context;
    for (int lane = 0; lane < NUM_ALL_LANES; lane++) {
        uint32_t arrival = atomic_load(&rank->arrivals[lane]);
        if (arrival != rank->arrivals_seen[lane])
            watchdog_enter(rank->on.watchdog, lane, name_at(rank, arrival));
        rank->arrivals_seen[lane] = arrival;
    }
}

static void post(struct rank *rank, struct stream *stream, int i, uint32_t arrival)
{
    enum lane lane = instr_lane(&rank->list->at[i]);
    rank->on.api->post(stream, &rank->arrivals[lane], arrival);
}

void lane_status_begin(struct rank *rank, struct stream *stream, int i)
{
    if (rank->arrivals)
        post(rank, stream, i, arrival_at(rank, i));
}

void lane_status_end(struct rank *rank, struct stream *stream, int i)
{
    if (rank->arrivals)
        post(rank, stream, i, arrival_at(rank, i) + 1);
}

void lane_status_wait(struct watchdog *watchdog, const char *what)
{
    if (watchdog)
        watchdog_enter(watchdog, LANE_OF_ISSUER, what);
}

/* --- opening and closing ------------------------------------------------------------------ */

bool lane_status_open(struct rank *rank, struct err *err)
{
    const struct rank_device *on = &rank->on;
    if (!on->watchdog)
        return true;
    rank->names = ARENA_ARRAY(&rank->arena, const char *, (size_t)rank->list->count);
    for (int i = 0; i < rank->list->count; i++)
        rank->names[i] = name_of(rank, &rank->list->at[i]);
    rank->arrivals = on->api->pinned_alloc(on->device, NUM_ALL_LANES * sizeof *rank->arrivals, err);
    for (int lane = 0; lane < NUM_ALL_LANES && rank->arrivals; lane++)
        atomic_init(&rank->arrivals[lane], 0);
    if (rank->arrivals)
        watchdog_look_with(on->watchdog, look, rank);
    return rank->arrivals != NULL;
}

void lane_status_close(struct rank *rank)
{
    if (!rank->arrivals)
        return;
    watchdog_look_with(rank->on.watchdog, NULL, NULL);
    rank->on.api->pinned_free(rank->on.device, rank->arrivals);
}
