#include "exec/whereabouts.h"

#include "exec/rank_part.h"

#include <stdio.h>

static const char *const opcode_names[NUM_OPCODES] = {
#define X(name, lane, text, form, meaning) [INSTR_##name] = #name,
    INSTR_OPCODES(X)
#undef X
};

/* --- in words ----------------------------------------------------------------------------- */

/* Whom a message goes to or comes from. */
static int peer_of(const struct rank *rank, const struct instr *instr)
{
    static const enum group_kind links[NUM_LANES] = { [LANE_SEND_DOWN] = GROUP_SEND_DOWN,
                                                      [LANE_RECV_DOWN] = GROUP_RECV_DOWN,
                                                      [LANE_SEND_UP] = GROUP_SEND_UP,
                                                      [LANE_RECV_UP] = GROUP_RECV_UP };
    const struct group *link = rank->groups.of[links[opcode_infos[instr->op].lane]];
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

void whereabouts_name(struct rank *rank)
{
    if (!rank->on.watchdog)
        return;
    rank->names = ARENA_ARRAY(&rank->arena, const char *, (size_t)rank->list->count);
    for (int i = 0; i < rank->list->count; i++)
        rank->names[i] = name_of(rank, &rank->list->at[i]);
}

void whereabouts_describe(void *context, int lane, const void *at, struct text *out)
{
    (void)context, (void)lane;
    text_add(out, "%s", (const char *)at);
}

/* --- on streams --------------------------------------------------------------------------- */

struct arrival {
    const struct rank *rank;
    enum lane lane;
    const char *name;
};

static void arrive(void *args)
{
    const struct arrival *arrival = args;
    const struct rank_device *on = &arrival->rank->on;
    struct err unheard = { 0 };
    if (on->comm_api->poll(on->comm, &unheard))
        watchdog_enter(on->watchdog, (int)arrival->lane, arrival->name);
}

static void issue_arrival(struct rank *rank, struct stream *stream, int i, const char *name)
{
    struct arrival arrival = { rank, opcode_infos[rank->list->at[i].op].lane, name };
    rank->on.api->call(stream, arrive, &arrival, sizeof arrival);
}

void whereabouts_begin(struct rank *rank, struct stream *stream, int i)
{
    if (rank->on.watchdog)
        issue_arrival(rank, stream, i, rank->names[i]);
}

void whereabouts_end(struct rank *rank, struct stream *stream, int i)
{
    if (rank->on.watchdog)
        issue_arrival(rank, stream, i, NULL);
}

void whereabouts_wait(struct watchdog *watchdog, const char *what)
{
    if (watchdog)
        watchdog_enter(watchdog, LANE_OF_ISSUER, what);
}
