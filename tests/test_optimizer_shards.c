/* Given the same gradients, the shards of every layout come to the same parameters. */
#include "base/random.h"
#include "tests/parity.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

enum { UPDATES = 5 };

/* Which weight of which layer, as a number. */
static uint64_t hash_name(const struct stored_weight *stored)
{
    uint64_t hash = 14695981039346656037U; /* FNV-1a */
    for (const char *at = stored->weight->of->name; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211U;
    return hash * 31 + (uint64_t)stored->layer * 7 + (uint64_t)stored->weight->of->role;
}

/* Between -1 and 1, by the element's place in the whole model and nothing else. */
static float gradient_of(const struct stored_weight *stored, size_t whole_index, int update)
{
    struct random rng = random_new(hash_name(stored) + (uint64_t)update, whole_index);
    return (float)(2 * random_unit(&rng) - 1);
}

/* In place of what a backward and the data ranks' reduction leave. */
static void set_gradients(struct store *store, int update)
{
    size_t begin = store_first_updated(store), end = begin + store_updated(store);
    float *reduced = store->zero >= 2 ? store->gradient_shard : store->gradients + begin;
    for (int w = 0; w < store->num_weights; w++) {
        const struct stored_weight *stored = &store->weights[w];
        for (size_t i = 0; i < stored->weight->rows * stored->weight->columns; i++) {
            size_t at = stored->offset + i;
            if (at >= begin && at < end)
                reduced[at - begin] =
                    gradient_of(stored, weight_whole_index(stored->weight, i), update);
        }
    }
}

static bool update_stores(struct rank *rank, const struct parity_run *run, struct err *err)
{
    int count;
    struct store **stores = rank_stores(rank, &count);
    struct machine *m = rank_machine(rank);
    struct update update = { .optimizer = run->optimizer,
                             .rate = run->rate,
                             .decay = 0.1F,
                             .momentum = 0.9F,
                             .beta1 = 0.9F,
                             .beta2 = 0.95F,
                             .epsilon = 1e-8F };
    static const float scale = 0.5F;
    bool ok = m->device_api->stream_sync(m->compute, err);
    for (update.step = 1; update.step <= UPDATES && ok; update.step++) {
        for (int s = 0; s < count; s++) {
            set_gradients(stores[s], (int)update.step);
            store_update(m, stores[s], &update, &scale);
        }
        ok = m->device_api->stream_sync(m->compute, err);
    }
    return ok;
}

/* Under a sanitizer the first alone. */
static const char *const layouts[] = {
    "tp2 sp pp2 dp2 zero1",
    "tp2 sp dp2 zero3",
    "pp2 vpp2",
    "dp4 zero2",
    "dp4 zero3",
    "tp2",
    "tp2 sp pp2",
    "pp4",
    "dp2",
    "dp2 zero1",
    "dp4 zero1",
};
enum { NUM_LAYOUTS = COUNT(layouts) };
static const int optimizers[] = { OPTIMIZER_ADAM, OPTIMIZER_MOMENTUM, OPTIMIZER_SGD };
enum { NUM_TRIED = COUNT(optimizers) };

/* To the last bit: an update adds nothing up. */
START_TEST(shards_are_updated_as_the_whole_is)
{
    if (is_spared(_i, 3))
        return;
    const char *layout = layouts[_i % NUM_LAYOUTS];
    struct model model = _i % 2 ? parity_llama() : parity_gpt();
    struct parity_run run = {
        .optimizer = optimizers[_i / NUM_LAYOUTS], .rate = 0.01F, .arena_bytes = 4 << 20, .seed = 3
    };
    struct parity_result first, one, many;
    parity_run(&model, "mb1", &run, &first);
    run.before = update_stores;
    parity_run(&model, "mb1", &run, &one);
    parity_run(&model, layout, &run, &many);
    ck_assert_double_gt(parity_distance(&first, &one), 0.01);
    ck_assert_msg(parity_distance(&one, &many) == 0, "%s: weights differ by %.3g", layout,
                  parity_distance(&one, &many));
    parity_release(&first);
    parity_release(&one);
    parity_release(&many);
}
END_TEST

/* With gradients of their own, which differ in their last digits: an epsilon of 1e-4 keeps those of
 * elements that hardly move from becoming whole steps. */
START_TEST(layouts_train_alike_under_adam)
{
    if (is_spared(_i, 3))
        return;
    const char *layout = layouts[_i];
    struct model model = _i % 2 ? parity_llama() : parity_gpt();
    struct parity_run run = {
        .steps = 4, .optimizer = OPTIMIZER_ADAM, .rate = 0.01F, .arena_bytes = 4 << 20, .seed = 3
    };
    struct parity_result one, many;
    parity_run(&model, "mb1", &run, &one);
    parity_run(&model, layout, &run, &many);
    for (int step = 0; step < run.steps; step++)
        ck_assert_msg(fabs(many.loss[step] / one.loss[step] - 1) < 1e-5,
                      "%s, step %d: loss %.9g, alone %.9g", layout, step + 1, many.loss[step],
                      one.loss[step]);
    ck_assert_msg(parity_distance(&one, &many) < 1e-4, "%s: weights differ by %.3g", layout,
                  parity_distance(&one, &many));
    parity_release(&one);
    parity_release(&many);
}
END_TEST

/* Adam's first step: m and v are (1 - beta) g and (1 - beta) g^2, and corrected they are g and g^2, so
 * that a weight moves by rate g / (|g| + epsilon), whatever g is (Kingma and Ba 2015, section 2.1).
 * Gradients of a few elements are not far above the 1e-4 that epsilon is here. */
START_TEST(the_first_step_of_adam_moves_each_weight_by_the_rate)
{
    struct model model = parity_llama();
    struct parity_run run = {
        .optimizer = OPTIMIZER_ADAM, .rate = 0, .steps = 1, .arena_bytes = 4 << 20, .seed = 3
    };
    struct parity_result before, after;
    long moved = 0, by_rate = 0;
    parity_run(&model, "mb1", &run, &before);
    run.rate = 0.01F;
    parity_run(&model, "mb1", &run, &after);
    for (int i = 0; i < after.num_weights; i++)
        for (size_t j = 0; j < after.weights[i].elements; j++) {
            double move = fabs(after.weights[i].values[j] - before.weights[i].values[j]);
            ck_assert_double_le(move, 0.01 * 1.001);
            moved += move > 0;
            by_rate += move > 0.005;
        }
    ck_assert_int_gt(moved, 1000);
    ck_assert_int_gt(by_rate, moved / 2);
    parity_release(&before);
    parity_release(&after);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("shards");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, shards_are_updated_as_the_whole_is, 0, NUM_LAYOUTS * NUM_TRIED);
    tcase_add_loop_test(tc, layouts_train_alike_under_adam, 0, NUM_LAYOUTS);
    tcase_add_test(tc, the_first_step_of_adam_moves_each_weight_by_the_rate);
    Suite *s = suite_create("exec/optimizer_shards");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
