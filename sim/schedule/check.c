/* Checks the instruction lists of a schedule. Each rule checks that certain instructions have
 * always finished when another one starts. The lists are not compared with those that lower.c
 * makes, so other correct lists are accepted too. The time is linear in the number of
 * instructions. */
#include "sim/schedule/proof.h"
#include "sim/schedule/text_form.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool proof_fail(const struct proof *proof, int instr, const char *format, ...)
{
    char where[64];
    char message[sizeof proof->err->msg];
    if (instr == NO_INSTR)
        snprintf(where, sizeof where, "stage %d", proof->stage);
    else
        snprintf(where, sizeof where, "stage %d, instruction %d", proof->stage, instr);
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return err_set(proof->err, ERR_INPUT, where, "%s", message);
}

struct instr_text proof_text(const struct proof *proof, int instr)
{
    struct instr_text out;
    struct text text = { 0 };
    instr_write(&proof->list->at[instr], &text);
    snprintf(out.at, sizeof out.at, "%s", text_get(&text));
    text_release(&text);
    return out;
}

bool proof_ordered(const struct proof *proof, int earlier, int later)
{
    enum lane lane = instr_lane(&proof->list->at[earlier]);
    if (proof->known[later].finished[lane] > proof->place[earlier])
        return true;
    return proof_fail(proof, later, "%s may start before %s (instruction %d) has finished",
                      proof_text(proof, later).at, proof_text(proof, earlier).at, earlier);
}

/* The chunk on this rank that makes or needs a message; for an instruction that is not a message,
 * its own chunk. */
static int own_chunk(const struct instr *instr)
{
    if (instr->op == INSTR_RECV_ACT)
        return instr->chunk + 1;
    if (instr->op == INSTR_RECV_GRAD)
        return instr->chunk - 1;
    return instr->chunk;
}

/* The chunk at a message's other end. */
static int other_chunk(const struct instr *instr)
{
    if (instr->op == INSTR_SEND_ACT)
        return instr->chunk + 1;
    if (instr->op == INSTR_SEND_GRAD)
        return instr->chunk - 1;
    return instr->chunk;
}

static bool has_microbatch(enum opcode op)
{
    return strchr(opcode_infos[op].form, 'm') != NULL;
}

static bool has_peer(enum opcode op)
{
    return strchr(opcode_infos[op].form, 'p') != NULL;
}

static bool check_chunk(const struct proof *proof, int i)
{
    struct placement placement = schedule_placement(proof->schedule);
    const struct instr *instr = &proof->list->at[i];
    int chunks = placement_chunks(placement);
    int own = own_chunk(instr);
    int other = other_chunk(instr);
    bool is_last = own < other && own >= 0 && placement_has_head(placement, own);
    bool is_first = own > other && own < chunks && placement_has_embedding(placement, own);
    if (own < 0 || other < 0 || own >= chunks || other >= chunks || is_last || is_first)
        return proof_fail(proof, i, "%s reaches beyond the %d chunks", proof_text(proof, i).at,
                          placement_part(placement, chunks - 1) + 1);
    int stage = placement_stage(placement, own), peer = placement_stage(placement, other);
    if (stage != proof->stage)
        return proof_fail(proof, i, "%s belongs to stage %d", proof_text(proof, i).at, stage);
    if (has_peer(instr->op) && peer != instr->peer)
        return proof_fail(proof, i, "%s should name stage %d, its chunk's neighbour",
                          proof_text(proof, i).at, peer);
    return !has_peer(instr->op) || peer != stage ||
           proof_fail(proof, i, "%s would send from stage %d to itself", proof_text(proof, i).at,
                      stage);
}

static bool check_fields(const struct proof *proof, int i)
{
    const struct instr *instr = &proof->list->at[i];
    const char *form = opcode_infos[instr->op].form;
    int num_microbatches = proof->schedule->shape.num_microbatches;
    if (instr->after < NO_INSTR || instr->after >= i)
        return proof_fail(proof, i, "%s waits for an instruction that is not earlier",
                          proof_text(proof, i).at);
    if ((!strchr(form, 'c') && instr->chunk != -1) ||
        (!strchr(form, 'm') && instr->microbatch != -1) ||
        (!strchr(form, 'p') && instr->peer != -1))
        return proof_fail(proof, i, "%s has fields that its opcode does not use",
                          proof_text(proof, i).at);
    if (has_microbatch(instr->op) &&
        (instr->microbatch < 0 || instr->microbatch >= num_microbatches))
        return proof_fail(proof, i, "%s is beyond the %d microbatches", proof_text(proof, i).at,
                          num_microbatches);
    return !strchr(form, 'c') || check_chunk(proof, i);
}

static void take_in(struct known *known, const struct proof *proof, int finished)
{
    if (finished == NO_INSTR)
        return;
    for (int lane = 0; lane < NUM_ALL_LANES; lane++)
        if (known->finished[lane] < proof->known[finished].finished[lane])
            known->finished[lane] = proof->known[finished].finished[lane];
    enum lane lane = instr_lane(&proof->list->at[finished]);
    if (known->finished[lane] <= proof->place[finished])
        known->finished[lane] = proof->place[finished] + 1;
}

static bool learn_order(struct proof *proof, struct arena *scratch)
{
    int last[NUM_ALL_LANES];
    for (int lane = 0; lane < NUM_ALL_LANES; lane++)
        last[lane] = NO_INSTR;
    proof->known = ARENA_ARRAY(scratch, struct known, (size_t)proof->list->count);
    proof->place = ARENA_ARRAY(scratch, int, (size_t)proof->list->count);
    for (int i = 0; i < proof->list->count; i++) {
        if (!check_fields(proof, i))
            return false;
        enum lane lane = instr_lane(&proof->list->at[i]);
        proof->place[i] = last[lane] == NO_INSTR ? 0 : proof->place[last[lane]] + 1;
        take_in(&proof->known[i], proof, last[lane]);
        take_in(&proof->known[i], proof, proof->list->at[i].after);
        last[lane] = i;
    }
    return true;
}

static size_t slot_key(const struct proof *proof, int chunk, int microbatch)
{
    const struct schedule_shape *shape = &proof->schedule->shape;
    size_t round = (size_t)placement_round(schedule_placement(proof->schedule), chunk);
    return round * (size_t)shape->num_microbatches + (size_t)microbatch;
}

static long long num_slots(const struct proof *proof)
{
    const struct schedule_shape *shape = &proof->schedule->shape;
    return (long long)shape->chunks_per_stage * shape->num_microbatches;
}

/* Forwards are counted before the tables are allocated, so that their size is bounded by the length
 * of the lists. */
static bool check_num_forwards(const struct proof *proof)
{
    int forwards = 0;
    for (int i = 0; i < proof->list->count; i++)
        forwards += proof->list->at[i].op == INSTR_FORWARD;
    return forwards == num_slots(proof) ||
           proof_fail(proof, NO_INSTR, "expected %lld forwards, found %d", num_slots(proof),
                      forwards);
}

static bool find_instrs(struct proof *proof, struct arena *scratch)
{
    if (!check_num_forwards(proof))
        return false;
    for (int op = 0; op < NUM_OPCODES; op++) {
        proof->found[op] = ARENA_ARRAY(scratch, int, (size_t)num_slots(proof));
        for (long long slot = 0; slot < num_slots(proof); slot++)
            proof->found[op][slot] = NO_INSTR;
    }
    for (int i = 0; i < proof->list->count; i++) {
        const struct instr *instr = &proof->list->at[i];
        if (!has_microbatch(instr->op))
            continue;
        size_t key = slot_key(proof, own_chunk(instr), instr->microbatch);
        int *found = &proof->found[instr->op][key];
        if (*found != NO_INSTR)
            return proof_fail(proof, i, "%s repeats instruction %d", proof_text(proof, i).at,
                              *found);
        *found = i;
    }
    return true;
}

static bool splits(const struct proof *proof)
{
    return proof->totals[INSTR_BACKWARD_INPUT] + proof->totals[INSTR_BACKWARD_WEIGHT] > 0;
}

/* Whether this backward is split into BACKWARD_INPUT and BACKWARD_WEIGHT. One schedule may have
 * both kinds. */
static bool is_split_at(const struct proof *proof, size_t key)
{
    return splits(proof) && proof->found[INSTR_BACKWARD][key] == NO_INSTR;
}

static bool needs(const struct proof *proof, enum opcode op, int chunk, size_t key)
{
    struct chunk_place place = placement_of(schedule_placement(proof->schedule), chunk);
    if (op == INSTR_RECV_ACT || op == INSTR_SEND_GRAD)
        return place.previous_stage != NO_STAGE && place.previous_stage != place.stage;
    if (op == INSTR_SEND_ACT || op == INSTR_RECV_GRAD)
        return place.next_stage != NO_STAGE && place.next_stage != place.stage;
    if (op == INSTR_RECOMPUTE)
        return proof->totals[INSTR_RECOMPUTE] > 0;
    bool is_half = op == INSTR_BACKWARD_INPUT || op == INSTR_BACKWARD_WEIGHT;
    if (is_half || op == INSTR_BACKWARD)
        return is_half == is_split_at(proof, key);
    return has_microbatch(op);
}

static bool check_all_there(const struct proof *proof, int chunk, int microbatch)
{
    size_t key = slot_key(proof, chunk, microbatch);
    for (int op = 0; op < NUM_OPCODES; op++)
        if (needs(proof, (enum opcode)op, chunk, key) && proof->found[op][key] == NO_INSTR)
            return proof_fail(proof, NO_INSTR,
                              "expected %s for chunk %d, microbatch %d; found none",
                              opcode_infos[op].text, chunk, microbatch);
    int whole = proof->found[INSTR_BACKWARD][key];
    int half = proof->found[INSTR_BACKWARD_INPUT][key];
    half = half == NO_INSTR ? proof->found[INSTR_BACKWARD_WEIGHT][key] : half;
    return whole == NO_INSTR || half == NO_INSTR ||
           proof_fail(proof, whole, "%s is a whole backward, but %s is a half of the same one",
                      proof_text(proof, whole).at, proof_text(proof, half).at);
}

/* The next pass after an instruction on the lane (queue) of compute, or NO_INSTR. */
static int next_pass(const struct proof *proof, int i)
{
    for (i++; i < proof->list->count; i++) {
        enum opcode op = proof->list->at[i].op;
        if (op == INSTR_FORWARD || instr_starts_backward(op) || op == INSTR_BACKWARD_WEIGHT)
            return i;
    }
    return NO_INSTR;
}

/* The backward that forms a pair with a forward, or NO_INSTR. */
static int partner(const struct proof *proof, int forward)
{
    const struct instr *pass = &proof->list->at[forward];
    return pass->is_paired && pass->op == INSTR_FORWARD ? next_pass(proof, forward) : NO_INSTR;
}

/* A pair is a forward followed directly by the whole backward of another chunk. */
static bool check_pairs(const struct proof *proof)
{
    bool is_expected = false;
    for (int i = next_pass(proof, -1); i != NO_INSTR; i = next_pass(proof, i)) {
        const struct instr *pass = &proof->list->at[i];
        bool is_joined = pass->is_paired && pass->op == INSTR_BACKWARD;
        if (is_joined != is_expected)
            return proof_fail(
                proof, i,
                "%s does not belong to a pair of a forward and the backward right after it",
                proof_text(proof, i).at);
        is_expected = pass->is_paired && pass->op == INSTR_FORWARD;
        int second = is_expected ? partner(proof, i) : NO_INSTR;
        if (is_expected && (second == NO_INSTR || proof->list->at[second].chunk == pass->chunk))
            return proof_fail(proof, i,
                              "%s is not followed by the backward of another chunk, its pair",
                              proof_text(proof, i).at);
    }
    return true;
}

/* The pass that ends when `pass` ends: `pass` itself, or the second pass of a pair if `pass` is the
 * first. */
static int end_of(const struct proof *proof, int pass)
{
    int second = pass == NO_INSTR ? NO_INSTR : partner(proof, pass);
    return second == NO_INSTR ? pass : second;
}

static bool ordered_if_any(const struct proof *proof, int earlier, int later)
{
    return earlier == NO_INSTR || later == NO_INSTR || proof_ordered(proof, earlier, later);
}

static bool check_recompute(const struct proof *proof, int recompute, int backward)
{
    return recompute == NO_INSTR || proof->place[recompute] + 1 == proof->place[backward] ||
           proof_fail(proof, recompute, "%s is not just before %s (instruction %d)",
                      proof_text(proof, recompute).at, proof_text(proof, backward).at, backward);
}

/* The instruction that starts a backward. */
static int backward_of(const struct proof *proof, size_t key)
{
    return proof->found[is_split_at(proof, key) ? INSTR_BACKWARD_INPUT : INSTR_BACKWARD][key];
}

/* The pass that begins when `pass` begins: `pass` itself, or the first pass of a pair if `pass` is
 * the second. */
static int begin_of(const struct proof *proof, int pass)
{
    if (pass == NO_INSTR || !proof->list->at[pass].is_paired)
        return pass;
    while (proof->list->at[pass].op != INSTR_FORWARD)
        pass--;
    return pass;
}

static bool begins_behind(const struct proof *proof, int earlier, int pass)
{
    return ordered_if_any(proof, end_of(proof, earlier), begin_of(proof, pass));
}

/* Checks the order of consecutive chunks on one stage, which no message enforces. */
static bool check_turn(const struct proof *proof, int chunk, int microbatch)
{
    struct chunk_place place = placement_of(schedule_placement(proof->schedule), chunk);
    if (place.previous_stage != place.stage)
        return true;
    size_t key = slot_key(proof, chunk, microbatch);
    size_t before = slot_key(proof, chunk - 1, microbatch);
    return ordered_if_any(proof, end_of(proof, proof->found[INSTR_FORWARD][before]),
                          proof->found[INSTR_FORWARD][key]) &&
           begins_behind(proof, backward_of(proof, key), backward_of(proof, before));
}

static bool check_slot(const struct proof *proof, int chunk, int microbatch)
{
    size_t key = slot_key(proof, chunk, microbatch);
    int forward = proof->found[INSTR_FORWARD][key];
    int backward = backward_of(proof, key);
    return ordered_if_any(proof, proof->found[INSTR_RECV_ACT][key], forward) &&
           ordered_if_any(proof, end_of(proof, forward), proof->found[INSTR_SEND_ACT][key]) &&
           begins_behind(proof, forward, backward) &&
           ordered_if_any(proof, proof->found[INSTR_RECV_GRAD][key], backward) &&
           ordered_if_any(proof, backward, proof->found[INSTR_SEND_GRAD][key]) &&
           ordered_if_any(proof, backward, proof->found[INSTR_BACKWARD_WEIGHT][key]) &&
           check_recompute(proof, proof->found[INSTR_RECOMPUTE][key], backward) &&
           check_turn(proof, chunk, microbatch);
}

static bool check_slots(const struct proof *proof)
{
    const struct schedule_shape *shape = &proof->schedule->shape;
    for (int round = 0; round < shape->chunks_per_stage; round++) {
        int chunk = placement_chunk(schedule_placement(proof->schedule), proof->stage, round);
        for (int i = 0; i < shape->num_microbatches; i++)
            if (!check_all_there(proof, chunk, i) || !check_slot(proof, chunk, i))
                return false;
    }
    return true;
}

/* For each pass of one direction, the first compute instruction after which its receive may be
 * posted. */
struct openings {
    int *before; /* the compute instruction before each pass */
    int count;
};

/* A pending receive holds a buffer and, on a GPU, multiprocessors. So it may be posted at the
 * earliest while the compute instruction right before the pass that it feeds runs, or
 * schedule_lead() passes earlier. For a pair, both receives may be posted as early as that of its
 * first pass. */
static bool check_receives(const struct proof *proof, struct arena *scratch)
{
    /* the last compute instructions, newest first */
    int before[3] = { NO_INSTR, NO_INSTR, NO_INSTR };
    struct openings of[2] = { { ARENA_ARRAY(scratch, int, (size_t)proof->list->count), 0 },
                              { ARENA_ARRAY(scratch, int, (size_t)proof->list->count), 0 } };
    for (int i = 0; i < proof->list->count; i++) {
        const struct instr *instr = &proof->list->at[i];
        bool down = instr->op == INSTR_FORWARD;
        bool up = instr_starts_backward(instr->op);
        if (!down && !up && instr->op != INSTR_BACKWARD_WEIGHT)
            continue;
        if (down || up) {
            const int *receives = proof->found[down ? INSTR_RECV_ACT : INSTR_RECV_GRAD];
            int receive = receives[slot_key(proof, instr->chunk, instr->microbatch)];
            struct openings *openings = &of[down];
            int lead = schedule_lead(proof->schedule, proof->stage, instr);
            int first = openings->count - 1 - lead;
            bool joins = up && instr->is_paired;
            int opening = lead == 0   ? before[joins ? 2 : 1]
                          : first < 0 ? NO_INSTR
                                      : openings->before[first];
            if (!ordered_if_any(proof, opening, receive))
                return false;
            openings->before[openings->count++] = before[0];
        }
        before[2] = before[1];
        before[1] = before[0];
        before[0] = i;
    }
    return true;
}

static bool check_stage(struct proof *proof, struct arena *scratch)
{
    return learn_order(proof, scratch) && find_instrs(proof, scratch) && check_pairs(proof) &&
           check_slots(proof) && check_receives(proof, scratch) &&
           proof_parameters(proof, scratch) && proof_reductions(proof, scratch) &&
           proof_update(proof, scratch);
}

static void count_opcodes(const struct schedule *schedule, long long totals[NUM_OPCODES])
{
    for (int stage = 0; stage < schedule->shape.num_stages; stage++)
        for (int i = 0; i < schedule->ranks[stage].count; i++)
            totals[schedule->ranks[stage].at[i].op]++;
}

/* The k-th reduction in a stage's list, or NO_INSTR. */
static int reduction_at(const struct instrs *list, int k)
{
    for (int i = 0; i < list->count; i++)
        if (list->at[i].op == INSTR_REDUCE_GRAD && k-- == 0)
            return i;
    return NO_INSTR;
}

/* Two stages with copies of the same layers reduce their gradients together, so they must do it in
 * the same order. */
static bool check_mirrors(const struct schedule *schedule, struct err *err)
{
    struct placement placement = schedule_placement(schedule);
    int stages = schedule->shape.num_stages;
    for (int stage = 0; placement_is_mirrored(placement) && stage < stages; stage++) {
        const struct instrs *list = &schedule->ranks[stage];
        const struct instrs *far = &schedule->ranks[stages - 1 - stage];
        struct proof proof = { .schedule = schedule, .stage = stage, .list = list, .err = err };
        for (int k = 0; reduction_at(list, k) != NO_INSTR; k++) {
            int own = reduction_at(list, k), other = reduction_at(far, k);
            if (other == NO_INSTR || placement_part(placement, list->at[own].chunk) !=
                                         placement_part(placement, far->at[other].chunk))
                return proof_fail(
                    &proof, own,
                    "%s reduces another part of the model than its counterpart on stage %d",
                    proof_text(&proof, own).at, stages - 1 - stage);
        }
    }
    return true;
}

bool schedule_check(const struct schedule *schedule, struct err *err)
{
    struct arena scratch = { 0 };
    long long totals[NUM_OPCODES] = { 0 };
    count_opcodes(schedule, totals);
    bool ok = true;
    for (int stage = 0; ok && stage < schedule->shape.num_stages; stage++) {
        struct arena_mark mark = arena_mark(&scratch);
        struct proof proof = {
            .schedule = schedule,
            .totals = totals,
            .stage = stage,
            .list = &schedule->ranks[stage],
            .err = err,
        };
        ok = check_stage(&proof, &scratch);
        arena_reset(&scratch, mark);
    }
    ok = ok && check_mirrors(schedule, err) && schedule_finishes(schedule, &scratch, err);
    arena_release(&scratch);
    return ok;
}
