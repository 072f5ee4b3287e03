/* A run that is saved and goes on is the run that was never interrupted. */
#include "exec/checkpoint.h"
#include "tests/draw.h"
#include "tests/parity.h"
#include "tests/testing.h"

#include "kernels/host/philox.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[64];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/test_checkpoint.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* --- callbacks on the ranks --------------------------------------------------------------- */

static bool save(struct rank *rank, const struct parity_run *run, struct err *err)
{
    int first = run->first_step > 0 ? run->first_step : 1;
    return checkpoint_save(rank, folder, first + run->steps - 1, err);
}

static bool load(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    return checkpoint_load(rank, folder, &state, err) &&
           (state.step == run->first_step - 1 ||
            err_set(err, ERR_INPUT, "step", "%ld was loaded", state.step));
}

static struct parity_run run_of(int precision, int optimizer)
{
    return (struct parity_run){ .optimizer = optimizer,
                                .rate = optimizer == OPTIMIZER_ADAM ? 0.01F : 0.3F,
                                .precision = precision,
                                .seed = 11 };
}

/* Three steps, saved. */
static void save_three(const struct model *model, const char *layout, struct parity_run run)
{
    struct parity_result result;
    run.steps = 3;
    run.after = save;
    parity_run(model, layout, &run, &result);
    parity_release(&result);
}

static void resume(const struct model *model, const char *layout, struct parity_run run, int steps,
                   struct parity_result *out)
{
    run.first_step = 4;
    run.steps = steps;
    run.before = load;
    parity_run(model, layout, &run, out);
}

/* --- resuming ----------------------------------------------------------------------------- */

static const struct {
    const char *layout;
    int precision, optimizer;
} runs[] = {
    { "mb2", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp2 zero3 mb2", PRECISION_FP32, OPTIMIZER_MOMENTUM },
    { "tp2 sp pp2 zero0", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp2 zero1 pp2 mb2", PRECISION_BF16, OPTIMIZER_ADAM },
    { "tp2 dp2 zero2 mb2", PRECISION_FP16, OPTIMIZER_ADAM },
    { "tp2 dp2 mb2 exchange=qsgd:5", PRECISION_BF16, OPTIMIZER_ADAM },
    { "pp2 vpp2 mb2", PRECISION_FP32, OPTIMIZER_SGD },
    { "dp2 tp2 mb2 exchange=topk:0.1", PRECISION_FP32, OPTIMIZER_ADAM },
    { "pp2 vpp2 dp2 mb2 exchange=ef21:0.1", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp2 mb2 exchange=neolithic:0.05", PRECISION_BF16, OPTIMIZER_MOMENTUM },
    { "dp2 mb2 exchange=powersgd:2", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp2 mb2 exchange=powersgd:2:memory=off", PRECISION_FP32, OPTIMIZER_SGD },
    { "dp4 mb1 exchange=gossip:ring", PRECISION_FP16, OPTIMIZER_ADAM },
    { "dp2 tp2 sp mb2 exchange=gossip:one-peer", PRECISION_BF16, OPTIMIZER_ADAM },
    { "pp2 dp2 mb2 exchange=gossip:one-peer:combine=beside", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp4 mb1 exchange=local:2", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp4 mb1 exchange=pga:4:graph=ring:group=2", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp4 mb1 exchange=aga:2", PRECISION_FP32, OPTIMIZER_ADAM },
};
enum { NUM_RUNS = sizeof runs / sizeof *runs };

START_TEST(a_resumed_run_has_the_bits_of_one_that_was_not_interrupted)
{
    struct model model = _i % 2 ? parity_llama() : parity_gpt();
    struct parity_run run = run_of(runs[_i].precision, runs[_i].optimizer);
    struct parity_result whole, rest;
    save_three(&model, runs[_i].layout, run);
    resume(&model, runs[_i].layout, run, 3, &rest);
    run.steps = 6;
    parity_run(&model, runs[_i].layout, &run, &whole);
    memmove(whole.loss, whole.loss + 3, 3 * sizeof *whole.loss);
    memmove(whole.gradient_norm, whole.gradient_norm + 3, 3 * sizeof *whole.loss);
    ck_assert_msg(parity_is_equal(&whole, &rest, 3), "%s", runs[_i].layout);
    parity_release(&whole);
    parity_release(&rest);
}
END_TEST

static const char *const from_to[][2] = {
    { "mb2", "tp2 sp pp2 dp2 zero1" }, { "tp4 sp", "dp2 zero3 mb2" },  { "dp4 zero2", "pp4" },
    { "pp2 vpp2 mb2", "mb1" },         { "dp2 zero1 tp2", "tp4 dp2" },
};
enum { NUM_MOVES = sizeof from_to / sizeof *from_to };

/* The weights are the same bits right after loading, under any layout. */
START_TEST(a_run_goes_on_under_another_layout)
{
    struct model model = parity_gpt();
    struct parity_run run = run_of(PRECISION_FP32, OPTIMIZER_ADAM);
    struct parity_result saved, loaded, same, other;
    const char *from = from_to[_i][0], *to = from_to[_i][1];
    save_three(&model, from, run);
    resume(&model, from, run, 0, &saved);
    resume(&model, to, run, 0, &loaded);
    ck_assert_msg(parity_distance(&saved, &loaded) == 0, "%s to %s", from, to);
    resume(&model, from, run, 3, &same);
    resume(&model, to, run, 3, &other);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(fabs(other.loss[i] / same.loss[i] - 1) < 1e-6, "%s to %s: %.9g, %.9g", from,
                      to, other.loss[i], same.loss[i]);
    parity_release(&saved);
    parity_release(&loaded);
    parity_release(&same);
    parity_release(&other);
}
END_TEST

static bool load_copies(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    return checkpoint_load(rank, folder, &state, err) &&
           (state.copies == *(int *)run->context ||
            err_set(err, ERR_INPUT, "copies", "%d and not %d", state.copies, *(int *)run->context));
}

/* At rate 0 the fourth step does nothing but average the replicas of the three before. */
START_TEST(another_layout_goes_on_with_the_mean_of_replicas_that_differ)
{
    static const char *const others[] = { "mb1", "pp2 dp2 zero1 mb2", "dp4 mb2 exchange=local:4" };
    struct model model = parity_gpt();
    struct parity_run run = run_of(PRECISION_FP32, OPTIMIZER_SGD);
    struct parity_result one, averaged, mean;
    int copies = 1;
    save_three(&model, "dp2 mb1 exchange=local:4", run);
    run.before = load_copies;
    run.context = &copies;
    run.first_step = 4;
    run.rate = 0;
    parity_run(&model, "dp2 mb1 exchange=local:4", &run, &one);
    run.steps = 1;
    parity_run(&model, "dp2 mb1 exchange=local:4", &run, &averaged);
    run.steps = 0;
    copies = 2;
    parity_run(&model, others[_i], &run, &mean);
    ck_assert_double_gt(parity_distance(&averaged, &one), 1e-4);
    ck_assert_double_lt(parity_distance(&averaged, &mean), 1e-7);
    parity_release(&one);
    parity_release(&averaged);
    parity_release(&mean);
}
END_TEST

static bool load_and_know_rate(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    (void)run;
    if (!checkpoint_load(rank, folder, &state, err))
        return false;
    ck_assert(state.rate == 0.3F);
    return true;
}

/* At rate 0 the weights stay what was saved. */
START_TEST(a_rate_that_is_given_wins_over_the_saved_one)
{
    struct model model = parity_gpt();
    struct parity_run run = run_of(PRECISION_FP32, OPTIMIZER_SGD);
    struct parity_result saved, rest;
    save_three(&model, "dp2", run);
    resume(&model, "dp2", run, 0, &saved);
    run.rate = 0;
    run.before = load_and_know_rate;
    run.first_step = 4;
    run.steps = 2;
    parity_run(&model, "dp2", &run, &rest);
    ck_assert(parity_distance(&saved, &rest) == 0);
    parity_release(&saved);
    parity_release(&rest);
}
END_TEST

/* --- damage ------------------------------------------------------------------------------- */

/* Steps 1 and 2 are saved, of two ranks; then the newer one is damaged again and again. */
static bool save_each_step(struct rank *rank, const struct parity_run *run, struct err *err)
{
    bool ok = checkpoint_save(rank, folder, 1, err);
    struct step_result result;
    ok = ok && rank_step(rank, 2, NULL, &result, err);
    (void)run;
    return ok && checkpoint_save(rank, folder, 2, err);
}

static void save_two(const char *layout)
{
    struct model model = parity_gpt();
    struct parity_run run = run_of(PRECISION_FP32, OPTIMIZER_ADAM);
    struct parity_result result;
    run.steps = 1;
    run.after = save_each_step;
    parity_run(&model, layout, &run, &result);
    parity_release(&result);
}

/* Runs `before` on one rank that has drawn its weights. */
static void on_one_rank(bool (*before)(struct rank *, const struct parity_run *, struct err *))
{
    struct model model = parity_gpt();
    struct parity_run run = run_of(PRECISION_FP32, OPTIMIZER_ADAM);
    struct parity_result result;
    run.before = before;
    parity_run(&model, "mb1", &run, &result);
    parity_release(&result);
}

static char *path_of(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static size_t size_of(const char *path)
{
    struct stat about;
    ck_assert_int_eq(stat(path, &about), 0);
    return (size_t)about.st_size;
}

static void flip(const char *path, size_t at, int bit)
{
    unsigned char byte;
    int fd = open(path, O_RDWR);
    ck_assert(fd >= 0 && pread(fd, &byte, 1, (off_t)at) == 1);
    byte ^= (unsigned char)(1 << bit);
    ck_assert(pwrite(fd, &byte, 1, (off_t)at) == 1);
    close(fd);
}

static void check_falls_back(struct rank *rank, const char *what)
{
    struct checkpoint_state state;
    struct err err = { 0 };
    ck_assert_msg(checkpoint_load(rank, folder, &state, &err), "%s: %s: %s", what, err.where,
                  err.msg);
    ck_assert_msg(state.step == 1, "%s: step %ld was loaded", what, state.step);
    ck_assert_msg(state.damage.code == ERR_INPUT, "%s: nothing was said", what);
}

static void bring_back(void)
{
    char from[160], to[160];
    snprintf(from, sizeof from, "%s", path_of("step-000000002.damaged"));
    snprintf(to, sizeof to, "%s", path_of("step-000000002"));
    ck_assert_int_eq(rename(from, to), 0);
}

enum { NUM_FLIPS = 60, HEAD_BYTES = 400 };

/* Half of them in the header and the table, which are short. */
static bool load_flipped(struct rank *rank, const struct parity_run *run, struct err *err)
{
    static const char *const files[] = { "step-000000002/rank-00000", "step-000000002/rank-00001" };
    struct draw draw = { .seed = told_seed() };
    (void)run, (void)err;
    for (uint64_t i = 0; i < NUM_FLIPS; i++) {
        uint32_t words[3];
        char file[160], what[100];
        draw_words(&draw, 4 * i, 3, words);
        snprintf(file, sizeof file, "%s", path_of(files[words[0] % 2]));
        size_t at = words[1] % (i % 2 ? HEAD_BYTES : size_of(file));
        snprintf(what, sizeof what, "%s, bit %u of byte %zu", files[words[0] % 2], words[2] % 8,
                 at);
        flip(file, at, (int)(words[2] % 8));
        check_falls_back(rank, what);
        bring_back();
        flip(file, at, (int)(words[2] % 8));
    }
    struct checkpoint_state state;
    return checkpoint_load(rank, folder, &state, err) && state.step == 2 &&
           state.damage.code == ERR_NONE;
}

START_TEST(a_flipped_bit_is_found_and_the_checkpoint_before_is_used)
{
    save_two("dp2 zero1");
    on_one_rank(load_flipped);
}
END_TEST

static bool load_cut(struct rank *rank, const struct parity_run *run, struct err *err)
{
    char file[160];
    (void)run, (void)err;
    snprintf(file, sizeof file, "%s", path_of("step-000000002/rank-00001"));
    size_t size = size_of(file);
    const size_t lengths[] = { size - 1, size - 4096, size / 2, HEAD_BYTES, 100, 0 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char what[40];
        snprintf(what, sizeof what, "cut to %zu", lengths[i]);
        ck_assert_int_eq(truncate(file, (off_t)lengths[i]), 0);
        check_falls_back(rank, what);
        bring_back();
    }
    ck_assert_int_eq(unlink(file), 0);
    check_falls_back(rank, "without a file");
    return true;
}

START_TEST(a_file_that_is_cut_or_missing_is_found_too)
{
    save_two("dp2 zero1");
    on_one_rank(load_cut);
}
END_TEST

static bool fail_to_load(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    struct err found = { 0 };
    (void)run, (void)err;
    ck_assert(!checkpoint_load(rank, folder, &state, &found));
    ck_assert_int_eq(found.code, ERR_INPUT);
    ck_assert_str_eq(found.where, folder);
    ck_assert_str_eq(found.msg, "holds no whole checkpoint");
    return true;
}

START_TEST(with_none_whole_loading_fails)
{
    save_two("dp2");
    flip(path_of("step-000000001/rank-00000"), 5000, 3);
    flip(path_of("step-000000002/rank-00000"), 5000, 3);
    on_one_rank(fail_to_load);
}
END_TEST

START_TEST(an_empty_folder_holds_none)
{
    struct checkpoint_state state;
    struct err err = { 0 };
    ck_assert(!checkpoint_newest(folder, &state, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.msg, "holds no checkpoint");
}
END_TEST

START_TEST(what_a_run_needs_first_is_read_from_the_newest)
{
    struct checkpoint_state state;
    struct err err = { 0 };
    save_two("dp2");
    ck_assert_msg(checkpoint_newest(folder, &state, &err), "%s", err.msg);
    ck_assert_int_eq(state.step, 2);
    ck_assert_uint_eq(state.seed, 11);
    ck_assert(state.rate == 0.01F);
}
END_TEST

/* --- what does not fit -------------------------------------------------------------------- */

static bool refuse(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    struct err found = { 0 };
    (void)err;
    ck_assert(!checkpoint_load(rank, folder, &state, &found));
    ck_assert_int_eq(found.code, ERR_INPUT);
    ck_assert_str_eq(found.where, run->context);
    return true;
}

START_TEST(another_model_seed_or_optimizer_is_refused)
{
    static char wheres[][12] = { "ffn", "seed", "optimizer" };
    struct model model = parity_gpt();
    struct parity_run run = run_of(PRECISION_FP32, OPTIMIZER_ADAM);
    struct parity_result result;
    save_three(&model, "mb1", run);
    run.before = refuse;
    run.context = wheres[_i];
    model.ffn = _i == 0 ? 64 : model.ffn;
    run.seed = _i == 1 ? 12 : run.seed;
    run.optimizer = _i == 2 ? OPTIMIZER_SGD : run.optimizer;
    parity_run(&model, "mb1", &run, &result);
    parity_release(&result);
}
END_TEST

static bool load_whole(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    (void)run;
    return checkpoint_load(rank, folder, &state, err) &&
           (state.damage.code == ERR_NONE ||
            err_set(err, ERR_INPUT, state.damage.where, "%s", state.damage.msg));
}

/* Of the same exchange too, when the layout is another; without memory nothing is kept. */
static const struct {
    const char *from, *to;
    bool is_refused;
} others[] = {
    { "dp2 mb1 exchange=topk:0.1", "dp2 mb1", true },
    { "dp2 mb1 exchange=topk:0.1", "tp2 dp2 mb1 exchange=topk:0.1", true },
    { "dp2 mb1 exchange=ef21:0.1", "dp2 mb1 exchange=topk:0.1", true },
    { "dp2 mb1 exchange=powersgd:2", "mb1", true },
    { "dp2 mb1 exchange=topk:0.1:memory=off", "mb1", false },
    { "dp2 mb1", "dp2 mb1 exchange=topk:0.1", false },
    { "dp2 mb1 exchange=gossip:one-peer", "dp2 mb1 exchange=ef21:0.1", false },
};
enum { NUM_OTHERS = sizeof others / sizeof *others };

START_TEST(what_ranks_keep_of_an_exchange_goes_to_no_other_layout)
{
    struct model model = parity_gpt();
    struct parity_run run = run_of(PRECISION_FP32, OPTIMIZER_ADAM);
    struct parity_result result;
    static char where[] = "exchange";
    save_three(&model, others[_i].from, run);
    run.before = others[_i].is_refused ? refuse : load_whole;
    run.context = where;
    parity_run(&model, others[_i].to, &run, &result);
    parity_release(&result);
}
END_TEST

/* --- the folder --------------------------------------------------------------------------- */

static int count_entries(const char *path)
{
    int count = 0;
    DIR *listing = opendir(path);
    while (readdir(listing))
        count++;
    closedir(listing);
    return count - 2;
}

static bool save_five(struct rank *rank, const struct parity_run *run, struct err *err)
{
    bool ok = true;
    (void)run;
    for (long step = 1; step <= 5 && ok; step++)
        ok = checkpoint_save(rank, folder, step, err);
    return ok;
}

START_TEST(the_newest_two_are_kept)
{
    on_one_rank(save_five);
    ck_assert_int_eq(count_entries(folder), 2);
    ck_assert_int_eq(access(path_of("step-000000004/rank-00000"), F_OK), 0);
    ck_assert_int_eq(access(path_of("step-000000005/rank-00000"), F_OK), 0);
}
END_TEST

static bool save_over_rest(struct rank *rank, const struct parity_run *run, struct err *err)
{
    (void)run;
    return checkpoint_save(rank, folder, 2, err);
}

START_TEST(what_a_killed_run_left_is_in_nobodys_way)
{
    ck_assert_int_eq(mkdir(path_of("step-000000002.tmp"), 0777), 0);
    close(open(path_of("step-000000002.tmp/rank-00000"), O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(mkdir(path_of("step-000000009.old.tmp"), 0777), 0);
    on_one_rank(save_over_rest);
    ck_assert_int_eq(count_entries(folder), 1);
    on_one_rank(save_over_rest); /* in its own place */
    ck_assert_int_eq(count_entries(folder), 1);
}
END_TEST

static bool save_until_killed(struct rank *rank, const struct parity_run *run, struct err *err)
{
    int ready = *(int *)run->context;
    for (long step = 1;; step++)
        if (!checkpoint_save(rank, folder, step, err) || (step == 1 && write(ready, "x", 1) != 1))
            return false;
}

static void kill_while_saving(long after_us)
{
    int ready[2];
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct model model = parity_gpt();
        struct parity_run run = run_of(PRECISION_FP32, OPTIMIZER_ADAM);
        struct parity_result result;
        run.before = save_until_killed;
        run.context = &ready[1];
        parity_run(&model, "dp2", &run, &result);
        _exit(1);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    nanosleep(&(struct timespec){ .tv_nsec = 1000 * after_us }, NULL);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
}

START_TEST(a_run_that_is_killed_while_it_saves_leaves_a_whole_checkpoint)
{
    struct draw draw = { .seed = told_seed() };
    for (uint64_t i = 0; i < 6; i++) {
        uint32_t word;
        draw_words(&draw, i, 1, &word);
        kill_while_saving((long)(word % 20000));
        on_one_rank(load_whole);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("checkpoint");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_loop_test(tc, a_resumed_run_has_the_bits_of_one_that_was_not_interrupted, 0,
                        NUM_RUNS);
    tcase_add_loop_test(tc, a_run_goes_on_under_another_layout, 0, NUM_MOVES);
    tcase_add_loop_test(tc, another_layout_goes_on_with_the_mean_of_replicas_that_differ, 0, 3);
    tcase_add_test(tc, a_rate_that_is_given_wins_over_the_saved_one);
    tcase_add_test(tc, a_flipped_bit_is_found_and_the_checkpoint_before_is_used);
    tcase_add_test(tc, a_file_that_is_cut_or_missing_is_found_too);
    tcase_add_test(tc, with_none_whole_loading_fails);
    tcase_add_test(tc, an_empty_folder_holds_none);
    tcase_add_test(tc, what_a_run_needs_first_is_read_from_the_newest);
    tcase_add_loop_test(tc, another_model_seed_or_optimizer_is_refused, 0, 3);
    tcase_add_loop_test(tc, what_ranks_keep_of_an_exchange_goes_to_no_other_layout, 0, NUM_OTHERS);
    tcase_add_test(tc, the_newest_two_are_kept);
    tcase_add_test(tc, what_a_killed_run_left_is_in_nobodys_way);
    tcase_add_test(tc, a_run_that_is_killed_while_it_saves_leaves_a_whole_checkpoint);
    Suite *s = suite_create("exec/checkpoint");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
