/* Tests that the optimizer's shards in every layout give the same parameters if the gradients are
 * the same. */
#include "base/random.h"
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

enum { UPDATES = 5 };

/* A hash that identifies a weight by layer and name. */
static uint64_t hash_name(const struct stored_weight *stored)
{
    uint64_t hash = 14695981039346656037U; /* FNV-1a */
    for (const char *at = stored->weight->of->name; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211U;
    return hash * 31 + (uint64_t)stored->layer * 7 + (uint64_t)stored->weight->of->role;
}

/* A gradient between -1 and 1 that depends only on the element's position in the whole model. */
static float gradient_of(const struct stored_weight *stored, size_t whole_index, int update)
{
    struct random rng = random_new(hash_name(stored) + (uint64_t)update, whole_index);
    return (float)(2 * random_unit(&rng) - 1);
}

/* The gradient of every element in each update, when all elements have the same gradient. */
static const float same_gradients[UPDATES] = { 1, -0.25F, 0.5F, 2, -3 };
static bool has_same_gradients;

/* Sets the gradients to the values that backward and reduction would give. */
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
                    has_same_gradients
                        ? same_gradients[update - 1]
                        : gradient_of(stored, weight_whole_index(stored->weight, i), update);
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

/* With a sanitizer only the first layout runs. */
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
enum { NUM_LAYOUTS = LENGTH(layouts) };
static const int optimizers[] = { OPTIMIZER_ADAM, OPTIMIZER_MOMENTUM, OPTIMIZER_SGD };
enum { NUM_TRIED = LENGTH(optimizers) };

/* Results are equal to the last bit, as an update contains no sums over elements. */
START_TEST(shards_are_updated_like_the_whole)
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

/* Here each layout computes its own gradients, which differ in their last digits. Without Adam's
 * epsilon of 1e-4, elements with gradients near 0 would make full steps in directions that depend
 * on these digits. */
START_TEST(all_layouts_train_equally_with_adam)
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
                      "%s, step %d: the loss is %.9g, but %.9g on one rank", layout, step + 1,
                      many.loss[step], one.loss[step]);
    ck_assert_msg(parity_distance(&one, &many) < 1e-4, "%s: weights differ by %.3g", layout,
                  parity_distance(&one, &many));
    parity_release(&one);
    parity_release(&many);
}
END_TEST

/* AdamW on one number, by Loshchilov and Hutter 2019 (algorithm 2), with the constants of
 * update_stores. */
static double adamw(double value, double rate)
{
    double m = 0, v = 0;
    for (int step = 1; step <= UPDATES; step++) {
        double gradient = 0.5 * (double)same_gradients[step - 1];
        m = 0.9 * m + 0.1 * gradient;
        v = 0.95 * v + 0.05 * gradient * gradient;
        double m_hat = m / (1 - pow(0.9, step)), v_hat = v / (1 - pow(0.95, step));
        value -= rate * (m_hat / (sqrt(v_hat) + 1e-8) + 0.1 * value);
    }
    return value;
}

START_TEST(an_update_equals_adamw)
{
    struct model model = parity_llama();
    struct parity_run run = {
        .optimizer = OPTIMIZER_ADAM, .rate = 0.01F, .arena_bytes = 4 << 20, .seed = 3
    };
    struct parity_result first, after;
    has_same_gradients = true;
    parity_run(&model, "mb1", &run, &first);
    run.before = update_stores;
    parity_run(&model, "mb1", &run, &after);
    has_same_gradients = false;
    for (int i = 0; i < after.num_weights; i++)
        for (size_t j = 0; j < after.weights[i].elements; j++)
            ck_assert_double_eq_tol(after.weights[i].values[j],
                                    adamw(first.weights[i].values[j], 0.01), 1e-6);
    parity_release(&first);
    parity_release(&after);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("shards");
    tcase_set_timeout(tc, 30);
    tcase_add_loop_test(tc, shards_are_updated_like_the_whole, 0, NUM_LAYOUTS * NUM_TRIED);
    tcase_add_loop_test(tc, all_layouts_train_equally_with_adam, 0, NUM_LAYOUTS);
    tcase_add_test(tc, an_update_equals_adamw);
    Suite *s = suite_create("exec/optimizer_shards");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
