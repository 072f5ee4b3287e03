#include "tests/testing.h"

#include "base/clock.h"
#include "base/random.h"
#include "exec/comm/reduce.h"
#include "exec/comm/socket.h"
#include "exec/plugin/backend.h"
#include "tests/draw.h"
#include "tests/exec/comm/comm_cases.h"
#include "tests/exec/mpirun.h"
#include "tests/exec/rank_job.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* --- ranks as threads ----------------------------------------------------------------------- */

enum { MOST_RANKS = 5 };

static const struct comm_api *const apis[] = { &comm_local, &comm_tcp };
enum { NUM_APIS = LENGTH(apis) };

/* --- comparison with a plain loop ----------------------------------------------------------- */

static bool run_cases(struct rank_job *job, const struct comm_options *options)
{
    return comm_cases_run(job->api, options, job->seed, 96);
}

START_TEST(every_call_equals_a_plain_loop)
{
    uint64_t seed = told_seed();
    for (int size = 1; size <= MOST_RANKS; size++)
        rank_job_run(
            (struct rank_job){ .api = apis[_i], .size = size, .seed = seed, .run = run_cases });
}
END_TEST

/* --- one rank, one group, one stream -------------------------------------------------------- */

struct side {
    const struct comm_api *api;
    struct device *device;
    struct stream *stream;
    struct comm *comm;
    struct group *world;
    int rank, size;
};

static struct side side_open(struct rank_job *job, const struct comm_options *options)
{
    struct err err = { 0 };
    int ranks[MOST_RANKS];
    for (int i = 0; i < job->size; i++)
        ranks[i] = i;
    struct side side = { .api = job->api,
                         .rank = options->place->rank,
                         .size = job->size,
                         .device = device_host.open(&(struct device_options){ 0 }, &err) };
    side.stream = device_host.stream_new(side.device, "side", &err);
    side.comm = job->api->open(options, &err);
    side.world = job->api->group_new(side.comm, ranks, job->size, &err);
    return side;
}

static void side_close(struct side *side)
{
    device_host.stream_free(side->stream);
    side->api->group_free(side->world);
    side->api->close(side->comm);
    device_host.close(side->device);
}

/* Waits until the call has run; on a failure of the communicator returns false with err. */
static bool finish(const struct side *side, struct comm_call call, struct err *err)
{
    call.group = side->world;
    call.stream = side->stream;
    side->api->issue(&call);
    return device_host.stream_sync(side->stream, err) && side->api->poll(side->comm, err);
}

/* --- determinism ---------------------------------------------------------------------------- */

enum { NUM_SUMMED = 50000 };

static void random_floats(uint64_t seed, int rank, float *at, size_t count)
{
    struct random rng = random_new(seed, (uint64_t)rank);
    for (size_t i = 0; i < count; i++)
        at[i] = (float)(random_unit(&rng) - 0.5);
}

static bool all_reduce(const struct side *side, const void *in, void *out, size_t count,
                       enum element element)
{
    struct err err = { 0 };
    return finish(
        side,
        (struct comm_call){
            .kind = COMM_ALL_REDUCE, .in = in, .out = out, .count = count, .element = element },
        &err);
}

/* Whether every rank has the bytes that rank 0 has. */
static bool is_everywhere(const struct side *side, const void *own, size_t bytes)
{
    struct err err = { 0 };
    void *first = malloc(bytes);
    bool ok = finish(side,
                     (struct comm_call){ .kind = COMM_BROADCAST,
                                         .in = own,
                                         .out = first,
                                         .count = bytes,
                                         .element = ELEMENT_BYTES },
                     &err) &&
              memcmp(first, own, bytes) == 0;
    free(first);
    return ok;
}

static bool sum_twice(struct rank_job *job, const struct comm_options *options)
{
    struct side side = side_open(job, options);
    size_t bytes = NUM_SUMMED * sizeof(float);
    float *in = malloc(bytes), *out = malloc(bytes), *again = malloc(bytes);
    random_floats(job->seed, side.rank, in, NUM_SUMMED);
    bool ok = all_reduce(&side, in, out, NUM_SUMMED, ELEMENT_FP32) &&
              all_reduce(&side, in, again, NUM_SUMMED, ELEMENT_FP32) &&
              memcmp(out, again, bytes) == 0 && is_everywhere(&side, out, bytes);
    free(in);
    free(out);
    free(again);
    side_close(&side);
    return ok;
}

START_TEST(repeated_sums_have_the_same_bits_on_all_ranks)
{
    uint64_t seed = told_seed();
    for (int size = 2; size <= MOST_RANKS; size++)
        rank_job_run(
            (struct rank_job){ .api = apis[_i], .size = size, .seed = seed, .run = sum_twice });
}
END_TEST

/* Sums the fp32 values of all ranks in rank order. */
static void plain_sum(uint64_t seed, int size, float *sum, size_t count)
{
    float *other = malloc(count * sizeof *other);
    for (int rank = 0; rank < size; rank++) {
        random_floats(seed, rank, other, count);
        for (size_t i = 0; i < count; i++)
            sum[i] = rank == 0 ? other[i] : sum[i] + other[i];
    }
    free(other);
}

/* The numbers of fp32 elements give messages that are sent in one part or in several parts, up to
 * the largest message that is summed without a ring. */
static const size_t few[] = { 1, 2, 1000, 2048, 2049, 5000, COMM_RING_BYTES / sizeof(float) };

static bool sum_few(struct rank_job *job, const struct comm_options *options)
{
    struct side side = side_open(job, options);
    float *values = malloc(COMM_RING_BYTES), *sum = malloc(COMM_RING_BYTES);
    bool ok = true;
    for (size_t i = 0; i < LENGTH(few) && ok; i++) {
        random_floats(job->seed, side.rank, values, few[i]);
        plain_sum(job->seed, side.size, sum, few[i]);
        ok = all_reduce(&side, values, values, few[i], ELEMENT_FP32) &&
             memcmp(values, sum, few[i] * sizeof *sum) == 0;
    }
    free(values);
    free(sum);
    side_close(&side);
    return ok;
}

START_TEST(small_messages_are_summed_in_the_order_of_ranks)
{
    uint64_t seed = told_seed();
    for (int size = 2; size <= MOST_RANKS; size++)
        rank_job_run(
            (struct rank_job){ .api = apis[_i], .size = size, .seed = seed, .run = sum_few });
}
END_TEST

/* Each row is the part of one rank in a reduce-scatter. Large messages of fp32 are summed around a
 * ring; messages of 16-bit values never are, because each hop would round the sum. */
static const struct {
    size_t count;
    enum element element;
} scattered[] = {
    { 1, ELEMENT_FP32 }, { 1000, ELEMENT_FP32 }, { 3000, ELEMENT_FP32 },  { 1000, ELEMENT_FP64 },
    { 1, ELEMENT_BF16 }, { 3000, ELEMENT_BF16 }, { 20000, ELEMENT_BF16 }, { 20000, ELEMENT_FP16 },
};

/* Values of 16 bits are random numbers between 1 and 2, whose sums need rounding. */
static void random_values(uint64_t seed, int rank, enum element element, void *at, size_t count)
{
    struct random rng = random_new(seed, (uint64_t)rank);
    for (size_t i = 0; i < count; i++) {
        double number = 1 + random_unit(&rng);
        if (element == ELEMENT_FP32)
            ((float *)at)[i] = (float)number;
        else if (element == ELEMENT_FP64)
            ((double *)at)[i] = number;
        else if (element == ELEMENT_BF16)
            ((uint16_t *)at)[i] = (uint16_t)(0x3f80 + random_below(&rng, 0x80));
        else
            ((uint16_t *)at)[i] = (uint16_t)(0x3c00 + random_below(&rng, 0x400));
    }
}

static bool scatter_sums(struct rank_job *job, const struct comm_options *options)
{
    struct side side = side_open(job, options);
    size_t size = (size_t)side.size, most = size * 20000 * sizeof(double);
    char *in = malloc(most), *sum = malloc(most), *own = malloc(most), *parts[MOST_RANKS];
    bool ok = true;
    for (int rank = 0; rank < side.size; rank++)
        parts[rank] = malloc(most);
    for (int i = 0; i < LENGTH(scattered) && ok; i++) {
        enum element element = scattered[i].element;
        size_t count = scattered[i].count, bytes = count * element_bytes(element);
        struct err err = { 0 };
        for (int rank = 0; rank < side.size; rank++)
            random_values(job->seed, rank, element, parts[rank], size * count);
        memcpy(in, parts[side.rank], size * bytes);
        reduce_parts(element, REDUCTION_SUM, (const void *const *)parts, side.size, sum,
                     size * count);
        ok = finish(&side,
                    (struct comm_call){ .kind = COMM_REDUCE_SCATTER,
                                        .in = in,
                                        .out = own,
                                        .count = count,
                                        .element = element },
                    &err) &&
             memcmp(own, sum + (size_t)side.rank * bytes, bytes) == 0;
    }
    for (int rank = 0; rank < side.size; rank++)
        free(parts[rank]);
    free(in);
    free(sum);
    free(own);
    side_close(&side);
    return ok;
}

START_TEST(parts_that_go_round_no_ring_are_summed_in_the_order_of_ranks)
{
    uint64_t seed = told_seed();
    for (int size = 2; size <= MOST_RANKS; size++)
        rank_job_run(
            (struct rank_job){ .api = apis[_i], .size = size, .seed = seed, .run = scatter_sums });
}
END_TEST

/* The array has one part per rank; each part is sent and summed in three chunks. Element i of rank
 * r is (7 i + r) % 100, so all sums are whole numbers. */
enum { LONG_PART = 140001 };

static bool sum_long(struct rank_job *job, const struct comm_options *options)
{
    struct side side = side_open(job, options);
    size_t size = (size_t)side.size, count = size * LONG_PART, own = (size_t)side.rank * LONG_PART;
    float *in = malloc(count * sizeof *in), *all = malloc(count * sizeof *all);
    float *part = malloc(LONG_PART * sizeof *part);
    struct err err = { 0 };
    for (size_t i = 0; i < count; i++)
        in[i] = (float)((7 * i + (size_t)side.rank) % 100);
    bool ok = all_reduce(&side, in, all, count, ELEMENT_FP32) &&
              finish(&side,
                     (struct comm_call){ .kind = COMM_REDUCE_SCATTER,
                                         .in = in,
                                         .out = part,
                                         .count = LONG_PART,
                                         .element = ELEMENT_FP32 },
                     &err);
    for (size_t i = 0; i < count && ok; i++) {
        size_t sum = 0;
        for (size_t rank = 0; rank < size; rank++)
            sum += (7 * i + rank) % 100;
        ok =
            all[i] == (float)sum && (i / LONG_PART != (size_t)side.rank || part[i - own] == all[i]);
    }
    free(in);
    free(all);
    free(part);
    side_close(&side);
    return ok;
}

START_TEST(long_messages_are_summed_in_all_chunks)
{
    for (int size = 2; size <= 3; size++)
        rank_job_run((struct rank_job){ .api = apis[_i], .size = size, .run = sum_long });
}
END_TEST

/* --- bytes ---------------------------------------------------------------------------------- */

/* Writes the number of bytes that each rank has sent to the array `context`, indexed by rank. */
static bool count_sent(struct rank_job *job, const struct comm_options *options)
{
    struct side side = side_open(job, options);
    char *memory = calloc(NUM_SUMMED, sizeof(float));
    bool ok = true;
    double least = 0;
    for (size_t i = 0; i <= LENGTH(few) && ok; i++)
        for (enum element element = ELEMENT_FP32; element < ELEMENT_BYTES && ok; element++) {
            size_t count = i < LENGTH(few) ? few[i] : NUM_SUMMED / 2;
            ok = all_reduce(&side, memory, memory, count, element);
            least += comm_least_sent_bytes(&(struct comm_call){
                .kind = COMM_ALL_REDUCE, .group = side.world, .count = count, .element = element });
        }
    ((double *)job->context)[side.rank] = side.api->sent_bytes(side.world) - least;
    free(memory);
    side_close(&side);
    return ok;
}

/* A call on 4 ranks sends 24 fp32 elements (96 bytes); the minimum number of bytes is a mean over
 * the ranks. For a sum, three ranks send 96 bytes to the fourth and get 96 bytes back: 6 x 96 / 4.
 * In a broadcast three ranks get 96 bytes: 3 x 96 / 4. In an all-gather of 96 bytes per rank, each
 * rank sends its part to three others: 3 x 96. */
START_TEST(minimum_bytes_of_each_call_equal_a_hand_count)
{
    static const double least[NUM_COMM_KINDS] = { [COMM_ALL_REDUCE] = 2 * 3 * 96 / 4.0,
                                                  [COMM_ALL_GATHER] = 3 * 96,
                                                  [COMM_REDUCE_SCATTER] = 3 * 96,
                                                  [COMM_BROADCAST] = 3 * 96 / 4.0,
                                                  [COMM_ALL_TO_ALL] = 3 * 96,
                                                  [COMM_SEND] = 96,
                                                  [COMM_RECV] = 0,
                                                  [COMM_SEND_RECV] = 96,
                                                  [COMM_NEIGHBOURS] = 2 * 96,
                                                  [COMM_BARRIER] = 0 };
    struct group four = { .size = 4 };
    for (int kind = 0; kind < NUM_COMM_KINDS; kind++) {
        struct comm_call call = { .kind = (enum comm_kind)kind,
                                  .group = &four,
                                  .count = 24,
                                  .num_neighbours = 2,
                                  .element = ELEMENT_FP32 };
        ck_assert_double_eq(comm_least_sent_bytes(&call), least[kind]);
    }
}
END_TEST

START_TEST(an_all_reduce_sends_the_minimum_bytes)
{
    for (int size = 2; size <= MOST_RANKS; size++) {
        double beyond[MOST_RANKS] = { 0 }, sum = 0;
        rank_job_run((struct rank_job){
            .api = apis[_i], .size = size, .run = count_sent, .context = beyond });
        for (int rank = 0; rank < size; rank++)
            sum += beyond[rank];
        ck_assert_double_eq_tol(sum, 0, 1e-3);
    }
}
END_TEST

/* In these calls of 3 ranks, each rank sends as many bytes as the table above demands. Each rank
 * receives from the rank before it. */
enum { SENDERS = 3, MOST_SENT = 3 * 20000 };
static const enum comm_kind counted_kinds[] = {
    COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_REDUCE_SCATTER, COMM_BROADCAST,
    COMM_ALL_TO_ALL, COMM_SEND_RECV,  COMM_NEIGHBOURS,
};
static const size_t counted[] = { 0, 1, 2, 3, 20000 };

static bool count_call(const struct side *side, enum comm_kind kind, enum element element,
                       size_t count, void *in, void *out, double *beyond)
{
    struct err err = { 0 };
    double before = side->api->sent_bytes(side->world);
    struct comm_call call = { .kind = kind,
                              .group = side->world,
                              .in = in,
                              .out = out,
                              .count = count,
                              .element = element,
                              .num_neighbours = 1 };
    call.tells[0] = (side->rank + 1) % SENDERS;
    call.hears[0] = (side->rank + SENDERS - 1) % SENDERS;
    if (kind == COMM_SEND_RECV) {
        call.peer = call.tells[0];
        call.source = call.hears[0];
    }
    bool ok = finish(side, call, &err);
    *beyond += side->api->sent_bytes(side->world) - before - comm_least_sent_bytes(&call);
    return ok;
}

static bool count_calls(struct rank_job *job, const struct comm_options *options)
{
    struct side side = side_open(job, options);
    double *in = calloc(MOST_SENT, sizeof *in), *out = calloc(MOST_SENT, sizeof *out);
    double(*beyond)[LENGTH(counted_kinds)] = job->context;
    bool ok = true;
    for (int k = 0; k < LENGTH(counted_kinds); k++)
        for (int i = 0; i < LENGTH(counted) && ok; i++)
            for (int element = ELEMENT_FP32; element < NUM_ELEMENTS && ok; element++)
                if (element != ELEMENT_BYTES || k == 1 || k > 2)
                    ok = count_call(&side, counted_kinds[k], (enum element)element, counted[i], in,
                                    out, &beyond[side.rank][k]);
    free(in);
    free(out);
    side_close(&side);
    return ok;
}

START_TEST(every_call_sends_the_minimum_bytes)
{
    double beyond[SENDERS][LENGTH(counted_kinds)] = { { 0 } };
    rank_job_run((struct rank_job){
        .api = apis[_i], .size = SENDERS, .run = count_calls, .context = beyond });
    for (int k = 0; k < LENGTH(counted_kinds); k++) {
        double sum = 0;
        for (int rank = 0; rank < SENDERS; rank++)
            sum += beyond[rank][k];
        ck_assert_msg(fabs(sum) < 1e-3, "%s sends %g bytes more than it must",
                      comm_kind_names[counted_kinds[k]], sum);
    }
}
END_TEST

/* Rank r sends the bytes 10 r, 10 r + 1, ... Each rank receives from the rank before it. */
static const struct {
    enum comm_kind kind;
    size_t count;
    const char *out[SENDERS]; /* the bytes that each rank receives, as characters from '0' on */
} few_bytes[] = {
    { COMM_ALL_GATHER, 1, { "0:D", "0:D", "0:D" } },
    { COMM_ALL_TO_ALL, 1, { "0:D", "1;E", "2<F" } },
    { COMM_ALL_TO_ALL, 2, { "01:;DE", "23<=FG", "45>?HI" } },
    { COMM_BROADCAST, 1, { "0", "0", "0" } },
    { COMM_SEND_RECV, 1, { "D", "0", ":" } },
    { COMM_NEIGHBOURS, 1, { "D", "0", ":" } },
};

static bool move_bytes(struct rank_job *job, const struct comm_options *options)
{
    struct side side = side_open(job, options);
    bool ok = true;
    for (int i = 0; i < LENGTH(few_bytes) && ok; i++) {
        char in[6], out[7] = "";
        struct err err = { 0 };
        for (int byte = 0; byte < 6; byte++)
            in[byte] = (char)('0' + 10 * side.rank + byte);
        struct comm_call call = { .kind = few_bytes[i].kind,
                                  .in = in,
                                  .out = out,
                                  .count = few_bytes[i].count,
                                  .element = ELEMENT_BYTES,
                                  .num_neighbours = 1 };
        call.tells[0] = (side.rank + 1) % SENDERS;
        call.hears[0] = (side.rank + SENDERS - 1) % SENDERS;
        if (call.kind == COMM_SEND_RECV) {
            call.peer = call.tells[0];
            call.source = call.hears[0];
        }
        ok = finish(&side, call, &err) && strcmp(out, few_bytes[i].out[side.rank]) == 0;
    }
    side_close(&side);
    return ok;
}

START_TEST(single_bytes_are_moved_to_the_right_rank)
{
    rank_job_run((struct rank_job){ .api = apis[_i], .size = SENDERS, .run = move_bytes });
}
END_TEST

/* --- numbers -------------------------------------------------------------------------------- */

/* In bf16, 256 + 1 is rounded to 256, because bf16 numbers are 2 apart there. In fp32, 256 plus
 * four ones is 260. */
START_TEST(bf16_is_summed_in_fp32_and_rounded_once)
{
    const uint16_t big = 0x4380, one = 0x3f80;
    const void *parts[] = { &big, &one, &one, &one, &one };
    uint16_t sum;
    reduce_parts(ELEMENT_BF16, REDUCTION_SUM, parts, 5, &sum, 1);
    ck_assert_uint_eq(sum, 0x4382);
    /* 257 lies between 256 and 258 and is rounded to the even one; 259 is rounded to 260. */
    reduce_parts(ELEMENT_BF16, REDUCTION_SUM, parts, 2, &sum, 1);
    ck_assert_uint_eq(sum, 0x4380);
    reduce_parts(ELEMENT_BF16, REDUCTION_SUM, parts, 4, &sum, 1);
    ck_assert_uint_eq(sum, 0x4382);
}
END_TEST

START_TEST(a_nan_is_the_maximum_on_any_rank)
{
    const float nan = NAN, one = 1;
    const void *orders[][2] = { { &nan, &one }, { &one, &nan } };
    for (int i = 0; i < 2; i++) {
        float largest;
        reduce_parts(ELEMENT_FP32, REDUCTION_MAX, orders[i], 2, &largest, 1);
        ck_assert(isnan(largest));
        const double wide[] = { (double)*(const float *)orders[i][0],
                                (double)*(const float *)orders[i][1] };
        double largest_wide;
        reduce_parts(ELEMENT_FP64, REDUCTION_MAX, (const void *[]){ &wide[0], &wide[1] }, 2,
                     &largest_wide, 1);
        ck_assert(isnan(largest_wide));
    }
}
END_TEST

/* --- failures ------------------------------------------------------------------------------- */

/* Rank 1 ends without a message. The other ranks must not wait for ever, and their error must name
 * a rank. */
static bool lose_a_rank(struct rank_job *job, const struct comm_options *options)
{
    struct side side = side_open(job, options);
    struct err err = { 0 }, at_barrier = { 0 };
    float value = 1;
    bool ok = true;
    /* the barrier may fail: rank 1 may have left before another rank has completed it */
    finish(&side, (struct comm_call){ .kind = COMM_BARRIER }, &at_barrier);
    if (side.rank == 1) {
        if (job->api == &comm_local)
            job->api->abort(side.comm);
    } else {
        ok = ok && !finish(&side,
                           (struct comm_call){
                               .kind = COMM_ALL_REDUCE, .in = &value, .out = &value, .count = 1 },
                           &err);
        ok = ok && err.code == ERR_SYSTEM && strncmp(err.where, "rank ", 5) == 0;
        struct err later = { 0 };
        ok = ok && !finish(&side, (struct comm_call){ .kind = COMM_BARRIER }, &later);
    }
    side_close(&side);
    return ok;
}

START_TEST(a_rank_that_ends_makes_the_others_fail)
{
    rank_job_run((struct rank_job){ .api = apis[_i], .size = 3, .seed = 5, .run = lose_a_rank });
}
END_TEST

static void *abort_soon(void *argument)
{
    struct side *side = argument;
    nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    side->api->abort(side->comm);
    return NULL;
}

struct listening {
    _Atomic uint32_t *word; /* written by a post (a stream's write) issued after the failing call */
    atomic_uint word_then;
    atomic_int times;
};

static void hear(void *context)
{
    struct listening *listening = context;
    atomic_fetch_or(&listening->word_then, atomic_load(listening->word));
    atomic_fetch_add(&listening->times, 1);
}

/* Rank 1 ends. Rank 0 has issued a call that waits for rank 1, and then a post (a write of a word
 * by the stream). The listener must hear of the failure once, before the post. */
static bool hear_of_a_loss(struct rank_job *job, const struct comm_options *options)
{
    _Atomic uint32_t word = 0;
    struct listening listening = { .word = &word };
    struct comm_options own = *options;
    own.listener = (struct failure_listener){ hear, &listening };
    struct side side = side_open(job, &own);
    struct err err = { 0 };
    float value;
    bool ok = true;
    if (side.rank == 0) {
        side.api->issue(&(struct comm_call){ .kind = COMM_RECV,
                                             .group = side.world,
                                             .stream = side.stream,
                                             .out = &value,
                                             .count = 1,
                                             .peer = 1 });
        device_host.post(side.stream, &word, 1);
        ok = device_host.stream_sync(side.stream, &err) && !side.api->poll(side.comm, &err) &&
             atomic_load(&word) == 1 && atomic_load(&listening.times) == 1 &&
             atomic_load(&listening.word_then) == 0;
    }
    side_close(&side);
    return ok;
}

START_TEST(a_failure_is_visible_before_the_failed_call_ends)
{
    rank_job_run(
        (struct rank_job){ .api = &comm_tcp, .size = 2, .seed = 5, .run = hear_of_a_loss });
}
END_TEST

/* Receives a message that is never sent. The other rank stays alive, so only the abort can end the
 * wait. */
static bool abort_a_receive(struct rank_job *job, const struct comm_options *options)
{
    atomic_int *num_done = job->context;
    struct side side = side_open(job, options);
    struct err err = { 0 };
    float value = 1;
    bool ok = true;
    if (side.rank == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, abort_soon, &side);
        ok = !finish(&side,
                     (struct comm_call){ .kind = COMM_RECV, .out = &value, .count = 1, .peer = 1 },
                     &err);
        pthread_join(thread, NULL);
        ok = ok && strstr(err.msg, "stopped") != NULL && value == 1;
    }
    atomic_fetch_add(num_done, 1);
    while (atomic_load(num_done) < side.size)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    side_close(&side);
    return ok;
}

START_TEST(an_abort_ends_a_waiting_call)
{
    atomic_int num_done = 0;
    rank_job_run((struct rank_job){
        .api = apis[_i], .size = 2, .seed = 5, .run = abort_a_receive, .context = &num_done });
}
END_TEST

/* Two ranks make one call each. Two messages match if they have equally many bytes; two collectives
 * match if all arguments that their kind uses are equal. */
static const struct {
    struct comm_call calls[2];
    bool fits;
} pairs[] = {
    { { { .kind = COMM_ALL_REDUCE, .count = 2 }, { .kind = COMM_ALL_REDUCE, .count = 2 } }, true },
    { { { .kind = COMM_ALL_REDUCE, .count = 2 }, { .kind = COMM_BROADCAST, .count = 2 } }, false },
    { { { .kind = COMM_ALL_GATHER, .count = 2 }, { .kind = COMM_ALL_GATHER, .count = 1 } }, false },
    { { { .kind = COMM_ALL_GATHER, .count = 2 },
        { .kind = COMM_ALL_GATHER, .count = 2, .element = ELEMENT_FP64 } },
      false },
    { { { .kind = COMM_ALL_REDUCE, .count = 2 },
        { .kind = COMM_ALL_REDUCE, .count = 2, .reduction = REDUCTION_MAX } },
      false },
    { { { .kind = COMM_REDUCE_SCATTER, .count = 1 },
        { .kind = COMM_REDUCE_SCATTER, .count = 1, .reduction = REDUCTION_MAX } },
      false },
    { { { .kind = COMM_ALL_GATHER, .count = 1 },
        { .kind = COMM_ALL_GATHER, .count = 1, .reduction = REDUCTION_MAX, .peer = 1 } },
      true },
    { { { .kind = COMM_BROADCAST, .count = 1 },
        { .kind = COMM_BROADCAST, .count = 1, .reduction = REDUCTION_MAX } },
      true },
    { { { .kind = COMM_BROADCAST, .count = 1 }, { .kind = COMM_BROADCAST, .count = 1, .peer = 1 } },
      false },
    { { { .kind = COMM_SEND, .count = 2, .peer = 1 },
        { .kind = COMM_RECV, .count = 1, .element = ELEMENT_FP64 } },
      true },
    { { { .kind = COMM_SEND, .count = 2, .peer = 1 }, { .kind = COMM_RECV, .count = 1 } }, false },
    { { { .kind = COMM_SEND, .count = 1, .peer = 1 }, { .kind = COMM_RECV, .count = 2 } }, false },
};

static bool call_in_pair(struct rank_job *job, const struct comm_options *options)
{
    struct side side = side_open(job, options);
    int pair = *(const int *)job->context;
    struct err err = { 0 };
    double in[4] = { 0 }, out[4];
    struct comm_call call = pairs[pair].calls[side.rank];
    call.in = in;
    call.out = out;
    bool ok = finish(&side, call, &err), fits = pairs[pair].fits;
    for (int i = 0; i < 2 && !fits; i++) {
        char words[80];
        const struct comm_call *each = &pairs[pair].calls[i];
        snprintf(words, sizeof words, "calls %s of %zu %s", comm_kind_names[each->kind],
                 each->count, element_names[each->element]);
        ok = ok || strncmp(err.where, "rank ", 5) != 0 || !strstr(err.msg, words);
    }
    side_close(&side);
    return ok == fits;
}

START_TEST(two_calls_of_threads_fit_or_are_refused)
{
    rank_job_run((struct rank_job){
        .api = &comm_local, .size = 2, .run = call_in_pair, .context = &(int){ _i } });
}
END_TEST

static bool disagree(struct rank_job *job, const struct comm_options *options)
{
    struct side side = side_open(job, options);
    struct err err = { 0 };
    float values[2] = { 0 };
    bool ok = !finish(
        &side,
        (struct comm_call){
            .kind = COMM_ALL_REDUCE, .in = values, .out = values, .count = side.rank == 1 ? 2 : 1 },
        &err);
    ok = ok && strstr(err.msg, "all_reduce of 2 fp32") && strstr(err.msg, "all_reduce of 1 fp32");
    side_close(&side);
    return ok;
}

START_TEST(threads_whose_calls_differ_are_detected)
{
    rank_job_run((struct rank_job){ .api = &comm_local, .size = 3, .run = disagree });
}
END_TEST

/* --- connecting all ranks ------------------------------------------------------------------- */

/* Rank 1 never connects. */
START_TEST(an_absent_rank_is_named_after_the_time_limit)
{
    struct rank_job job = { 0 };
    rank_job_listen(&job);
    struct place place = { .size = 2, .meeting_fd = job.meeting_fd };
    struct err err = { 0 };
    _Atomic uint32_t word = 0;
    struct listening listening = { .word = &word };
    struct comm *comm = comm_tcp.open(&(struct comm_options){ .place = &place,
                                                              .device = &device_host,
                                                              .patience_s = 0.05,
                                                              .listener = { hear, &listening } },
                                      &err);
    ck_assert_ptr_null(comm);
    ck_assert_int_eq(atomic_load(&listening.times), 1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "rank 1");
}
END_TEST

START_TEST(a_launcher_without_a_meeting_address_has_its_own_error)
{
    struct place place = { .launcher = "mpirun", .size = 2, .meeting_fd = -1 };
    struct err err = { 0 };
    _Atomic uint32_t word = 0;
    struct listening listening = { .word = &word };
    ck_assert_ptr_null(comm_tcp.open(&(struct comm_options){ .place = &place,
                                                             .device = &device_host,
                                                             .listener = { hear, &listening } },
                                     &err));
    ck_assert_int_eq(atomic_load(&listening.times), 0); /* no rank is lost */
    ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
}
END_TEST

static bool meet_only(struct rank_job *job, const struct comm_options *options)
{
    struct side side = side_open(job, options);
    struct err err = { 0 };
    bool ok = finish(&side, (struct comm_call){ .kind = COMM_BARRIER }, &err);
    side_close(&side);
    return ok;
}

/* Opens communicators one after another at the same meeting address, as a calibration does for each
 * number of thread blocks. */
static bool meet_twice(struct rank_job *job, const struct comm_options *options)
{
    return meet_only(job, options) && meet_only(job, options);
}

START_TEST(communicators_can_be_opened_again_at_the_same_address)
{
    rank_job_run(
        (struct rank_job){ .api = &comm_tcp, .size = 3, .seed = told_seed(), .run = meet_twice });
}
END_TEST

/* --- MPI ------------------------------------------------------------------------------------ */

/* The main function of the ranks that mpirun starts from this program. */
static int be_mpi_rank(void)
{
    struct place place;
    struct err err = { 0 };
    const struct comm_api *mpi = comm_find("mpi", &err);
    bool ok = mpi && place_of_environment(&place, &err);
    if (!ok)
        printf("%s: %s\n", err.where, err.msg);
    uint64_t seed = strtoull(getenv("TEST_SEED"), NULL, 10);
    struct comm_options options = { .place = &place, .device = &device_host };
    return !ok || !comm_cases_run(mpi, &options, seed, 96);
}

START_TEST(calls_over_mpi_equal_a_plain_loop)
{
    char seed[32];
    if (!mpirun_is_here())
        return;
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)told_seed());
    setenv("TEST_SEED", seed, 1);
    mpirun_self(3);
}
END_TEST

START_TEST(a_missing_plugin_is_reported_as_a_missing_capability)
{
    struct err err = { 0 };
    setenv("SIMSEARCH_PLUGINS", "/nonexistent", 1);
    ck_assert_ptr_null(comm_find("mpi", &err));
    ck_assert_int_eq(err.code, ERR_UNAVAILABLE);
    ck_assert_str_eq(err.where, "mpi");
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("comm");
    tcase_set_tags(tc, THREADS);
    tcase_add_loop_test(tc, every_call_equals_a_plain_loop, 0, NUM_APIS);
    tcase_add_loop_test(tc, repeated_sums_have_the_same_bits_on_all_ranks, 0, NUM_APIS);
    tcase_add_loop_test(tc, small_messages_are_summed_in_the_order_of_ranks, 0, NUM_APIS);
    tcase_add_loop_test(tc, parts_that_go_round_no_ring_are_summed_in_the_order_of_ranks, 0,
                        NUM_APIS);
    tcase_add_loop_test(tc, long_messages_are_summed_in_all_chunks, 0, NUM_APIS);
    tcase_add_test(tc, minimum_bytes_of_each_call_equal_a_hand_count);
    tcase_add_loop_test(tc, an_all_reduce_sends_the_minimum_bytes, 0, NUM_APIS);
    tcase_add_loop_test(tc, every_call_sends_the_minimum_bytes, 0, NUM_APIS);
    tcase_add_loop_test(tc, single_bytes_are_moved_to_the_right_rank, 0, NUM_APIS);
    tcase_add_test(tc, bf16_is_summed_in_fp32_and_rounded_once);
    tcase_add_test(tc, a_nan_is_the_maximum_on_any_rank);
    tcase_add_loop_test(tc, a_rank_that_ends_makes_the_others_fail, 0, NUM_APIS);
    tcase_add_test(tc, a_failure_is_visible_before_the_failed_call_ends);
    tcase_add_loop_test(tc, an_abort_ends_a_waiting_call, 0, NUM_APIS);
    tcase_add_test(tc, threads_whose_calls_differ_are_detected);
    tcase_add_loop_test(tc, two_calls_of_threads_fit_or_are_refused, 0, LENGTH(pairs));
    tcase_add_test(tc, an_absent_rank_is_named_after_the_time_limit);
    tcase_add_test(tc, a_launcher_without_a_meeting_address_has_its_own_error);
    tcase_add_test(tc, communicators_can_be_opened_again_at_the_same_address);
    tcase_add_test(tc, calls_over_mpi_equal_a_plain_loop);
    tcase_add_test(tc, a_missing_plugin_is_reported_as_a_missing_capability);
    Suite *s = suite_create("exec/comm/comm");
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    if (mpirun_is_rank())
        return be_mpi_rank();
    return run_suite(suite());
}
