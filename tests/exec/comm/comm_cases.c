#include "tests/exec/comm/comm_cases.h"

#include "base/random.h"
#include "kernels/host/round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_PARTITIONS = 3, MOST_RANKS = 16, BATCH = 8 };

/* A communicator call with its memory. `in` may be a part of `out`, or `out` a part of `in`. */
struct trial {
    struct comm_call call;
    int number;
    unsigned char *memory;
};

struct rank_run {
    const struct comm_api *api;
    const struct device_api *device_api;
    struct device *device;
    struct comm *comm;
    struct group *groups[NUM_PARTITIONS];
    struct stream *streams[NUM_PARTITIONS];
    struct trial trials[BATCH];
    int num_trials;
    uint64_t seed;
    int rank, size;
};

/* --- values --------------------------------------------------------------------------------- */

/* A test value. It is a small whole number, so that sums over 16 ranks are exact in bf16 and
 * fp16. */
static double value(const struct rank_run *run, int number, int rank, size_t i)
{
    struct random rng = random_new(run->seed + (uint64_t)number, (uint64_t)rank * 1000003 + i);
    return random_below(&rng, 15) - 7;
}

static void put(enum element element, void *array, size_t i, double number)
{
    float narrow = (float)number;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (element == ELEMENT_FP32)
        ((float *)array)[i] = narrow;
    else if (element == ELEMENT_FP64)
        ((double *)array)[i] = number;
    else if (element == ELEMENT_BF16)
        ((uint16_t *)array)[i] = (uint16_t)(bits >> 16);
    else if (element == ELEMENT_FP16)
        fp16_pack(1, &narrow, (uint16_t *)array + i);
    else
        ((unsigned char *)array)[i] = (unsigned char)(number + 100);
}

static double get(enum element element, const void *array, size_t i)
{
    uint32_t bits = element == ELEMENT_BF16 ? (uint32_t)((const uint16_t *)array)[i] << 16 : 0;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    if (element == ELEMENT_FP16)
        fp16_unpack(1, (const uint16_t *)array + i, &wide);
    if (element == ELEMENT_FP32)
        return (double)((const float *)array)[i];
    if (element == ELEMENT_FP64)
        return ((const double *)array)[i];
    if (element == ELEMENT_BF16 || element == ELEMENT_FP16)
        return (double)wide;
    return ((const unsigned char *)array)[i] - 100;
}

/* --- the plain loop ------------------------------------------------------------------------- */

static size_t in_count(const struct comm_call *call)
{
    size_t size = (size_t)call->group->size;
    int index = call->group->index;
    if (call->kind == COMM_BARRIER || call->kind == COMM_RECV)
        return 0;
    if (call->kind == COMM_BROADCAST && index != call->peer)
        return 0;
    bool has_parts = call->kind == COMM_REDUCE_SCATTER || call->kind == COMM_ALL_TO_ALL;
    return has_parts ? size * call->count : call->count;
}

static size_t out_count(const struct comm_call *call)
{
    size_t size = (size_t)call->group->size;
    if (call->kind == COMM_BARRIER || call->kind == COMM_SEND)
        return 0;
    if (call->kind == COMM_NEIGHBOURS)
        return (size_t)call->num_neighbours * call->count;
    bool has_parts = call->kind == COMM_ALL_GATHER || call->kind == COMM_ALL_TO_ALL;
    return has_parts ? size * call->count : call->count;
}

static double reduced(const struct rank_run *run, const struct trial *trial, size_t i)
{
    const struct group *group = trial->call.group;
    double result = value(run, trial->number, group->ranks[0], i);
    for (int j = 1; j < group->size; j++) {
        double next = value(run, trial->number, group->ranks[j], i);
        if (trial->call.reduction == REDUCTION_SUM)
            result += next;
        else if (next > result)
            result = next;
    }
    return result;
}

/* Returns element i of the output that this rank should have. */
static double expected(const struct rank_run *run, const struct trial *trial, size_t i)
{
    const struct comm_call *call = &trial->call;
    const int *ranks = call->group->ranks;
    size_t own = (size_t)call->group->index;
    switch (call->kind) {
    case COMM_ALL_REDUCE:
        return reduced(run, trial, i);
    case COMM_REDUCE_SCATTER:
        return reduced(run, trial, own * call->count + i);
    case COMM_ALL_GATHER:
        return value(run, trial->number, ranks[i / call->count], i % call->count);
    case COMM_ALL_TO_ALL:
        return value(run, trial->number, ranks[i / call->count],
                     own * call->count + i % call->count);
    case COMM_BROADCAST:
    case COMM_RECV:
        return value(run, trial->number, ranks[call->peer], i);
    case COMM_SEND_RECV:
        return value(run, trial->number, ranks[call->source], i);
    case COMM_NEIGHBOURS:
        return value(run, trial->number, ranks[call->hears[i / call->count]], i % call->count);
    case COMM_SEND:
    case COMM_BARRIER:
        break;
    }
    return 0;
}

static bool check_trial(const struct rank_run *run, const struct trial *trial)
{
    const struct comm_call *call = &trial->call;
    for (size_t i = 0; i < out_count(call); i++) {
        double got = get(call->element, call->out, i), wanted = expected(run, trial, i);
        if (got == wanted)
            continue;
        printf("rank %d of %d, %s of %zu %s on %d ranks, trial %d: element %zu is %g, not %g\n",
               run->rank, run->size, comm_kind_names[call->kind], call->count,
               element_names[call->element], call->group->size, trial->number, i, got, wanted);
        return false;
    }
    return true;
}

/* --- trials --------------------------------------------------------------------------------- */

static size_t random_count(struct random *rng)
{
    static const int most[] = { 1, 2, 4, 10, 100, 1000, 5000, 30000, 200000 };
    int i = random_below(rng, 64) == 0 ? 8 : random_below(rng, 8);
    return (size_t)random_below(rng, most[i]);
}

/* Chooses neighbours at equal distances before and after this rank, in random order. */
static void choose_neighbours(struct comm_call *call, int first, int second)
{
    int index = call->group->index, size = call->group->size;
    call->num_neighbours = 1 + first % (size - 1);
    for (int i = 0; i < call->num_neighbours; i++) {
        int step = 1 + (second + i) % (size - 1);
        call->tells[i] = (index + step) % size;
        call->hears[i] = (index + size - step) % size;
    }
}

/* Draws a call. It is equal on all ranks, except for values that depend on the rank's index in the
 * group. */
static struct comm_call random_call(struct random *rng, struct group *group)
{
    struct comm_call call = { .kind = (enum comm_kind)random_below(rng, NUM_COMM_KINDS),
                              .group = group,
                              .count = random_count(rng),
                              .element = (enum element)random_below(rng, NUM_ELEMENTS),
                              .reduction = (enum reduction)random_below(rng, NUM_REDUCTIONS) };
    bool reduces = call.kind == COMM_ALL_REDUCE || call.kind == COMM_REDUCE_SCATTER;
    if (reduces && call.element == ELEMENT_BYTES)
        call.element = ELEMENT_BF16;
    int first = random_below(rng, 1 << 20), second = random_below(rng, 1 << 20);
    if (!group)
        return call;
    call.peer = first % group->size;
    bool pairs = call.kind == COMM_SEND || call.kind == COMM_RECV || call.kind == COMM_SEND_RECV ||
                 call.kind == COMM_NEIGHBOURS;
    if (pairs && group->size == 1)
        call.kind = COMM_BARRIER;
    else if (call.kind == COMM_NEIGHBOURS)
        choose_neighbours(&call, first, second);
    else if (call.kind == COMM_SEND_RECV) {
        int step = 1 + second % (group->size - 1);
        call.peer = (group->index + step) % group->size;
        call.source = (group->index + group->size - step) % group->size;
    } else if (pairs) {
        int from = first % group->size;
        int to = (from + 1 + second % (group->size - 1)) % group->size;
        call.kind = group->index == from ? COMM_SEND
                    : group->index == to ? COMM_RECV
                                         : COMM_BARRIER;
        call.peer = group->index == from ? to : from;
    }
    return call;
}

static void place_memory(struct trial *trial, bool in_place)
{
    struct comm_call *call = &trial->call;
    size_t bytes = element_bytes(call->element), own = (size_t)call->group->index;
    size_t in_bytes = in_count(call) * bytes, out_bytes = out_count(call) * bytes;
    trial->memory = malloc(in_bytes + out_bytes + 16);
    memset(trial->memory, 0xff, in_bytes + out_bytes + 16);
    size_t gap = (in_bytes + 7) / 8 * 8;
    call->in = trial->memory;
    call->out = trial->memory + gap;
    if (in_place && call->kind == COMM_ALL_REDUCE)
        call->out = trial->memory;
    if (in_place && call->kind == COMM_BROADCAST)
        call->in = call->out = trial->memory;
    if (in_place && call->kind == COMM_ALL_GATHER) {
        call->out = trial->memory;
        call->in = trial->memory + own * call->count * bytes;
    }
    if (in_place && call->kind == COMM_REDUCE_SCATTER)
        call->out = trial->memory + own * call->count * bytes;
}

/* Returns whether this rank makes no call, because the call is a message between two other members
 * of its group. */
static bool is_idle(const struct comm_call *call, enum comm_kind drawn)
{
    return call->kind == COMM_BARRIER && drawn != COMM_BARRIER && call->group->size > 1;
}

static void issue_trial(struct rank_run *run, struct random *rng, int number)
{
    int partition = random_below(rng, NUM_PARTITIONS);
    bool in_place = random_below(rng, 2) == 0;
    struct random of_call = random_new(random_bits(rng), 0);
    struct random again = of_call;
    struct group *group = run->groups[partition];
    if (!group)
        return;
    enum comm_kind drawn = random_call(&again, NULL).kind;
    struct trial *trial = &run->trials[run->num_trials];
    *trial = (struct trial){ .call = random_call(&of_call, group), .number = number };
    trial->call.stream = run->streams[partition];
    if (is_idle(&trial->call, drawn))
        return;
    place_memory(trial, in_place);
    for (size_t i = 0; i < in_count(&trial->call); i++)
        put(trial->call.element, (void *)(uintptr_t)trial->call.in, i,
            value(run, number, run->rank, i));
    run->api->issue(&trial->call);
    run->num_trials++;
}

static bool finish_trials(struct rank_run *run)
{
    bool ok = true;
    struct err err = { 0 };
    for (int i = 0; i < NUM_PARTITIONS; i++)
        ok = run->device_api->stream_sync(run->streams[i], &err) && ok;
    ok = run->api->poll(run->comm, &err) && ok;
    if (!ok)
        printf("rank %d: %s: %s\n", run->rank, err.where, err.msg);
    for (int i = 0; i < run->num_trials; i++) {
        ok = ok && check_trial(run, &run->trials[i]);
        free(run->trials[i].memory);
    }
    run->num_trials = 0;
    return ok;
}

/* Makes the group of all ranks, then divides the ranks at random into groups with members in random
 * order. Some ranks are in no group. */
static bool make_groups(struct rank_run *run, struct random *rng, struct err *err)
{
    for (int partition = 0; partition < NUM_PARTITIONS; partition++) {
        int members[MOST_RANKS], count = 0, part_of[MOST_RANKS];
        for (int rank = 0; rank < run->size; rank++)
            part_of[rank] = partition == 0 ? 1 : random_below(rng, 3);
        bool backwards = partition == 2;
        for (int i = 0; i < run->size; i++) {
            int rank = backwards ? run->size - 1 - i : i;
            if (part_of[rank] > 0 && part_of[rank] == part_of[run->rank])
                members[count++] = rank;
        }
        run->groups[partition] = run->api->group_new(run->comm, members, count, err);
        if (count > 0 && !run->groups[partition])
            return false;
    }
    return true;
}

bool comm_cases_run(const struct comm_api *api, const struct comm_options *options, uint64_t seed,
                    int turns)
{
    struct err err = { 0 };
    struct rank_run run = { .api = api,
                            .device_api = options->device,
                            .seed = seed,
                            .rank = options->place->rank,
                            .size = options->place->size };
    struct random rng = random_new(seed, 0);
    struct device_options host = { .local_rank = run.rank,
                                   .delay_most_s = 20e-6,
                                   .delay_seed = seed + (uint64_t)run.rank };
    run.device = run.device_api->open(&host, &err);
    for (int i = 0; i < NUM_PARTITIONS; i++)
        run.streams[i] = run.device_api->stream_new(run.device, "comm", &err);
    run.comm = api->open(options, &err);
    bool ok = run.comm && make_groups(&run, &rng, &err);
    if (!ok)
        printf("rank %d: %s: %s\n", run.rank, err.where, err.msg);
    for (int number = 0; number < turns && ok; number++) {
        issue_trial(&run, &rng, number);
        if (number % BATCH == BATCH - 1)
            ok = finish_trials(&run);
    }
    ok = ok && finish_trials(&run);
    for (int i = 0; i < NUM_PARTITIONS; i++) {
        run.device_api->stream_free(run.streams[i]);
        api->group_free(run.groups[i]);
    }
    if (run.comm)
        api->close(run.comm);
    run.device_api->close(run.device);
    return ok;
}
