/* Tests which checkpoint is found, and which files are kept, if there are several checkpoints or if
 * one is damaged, truncated or half-written. */
#include "base/crc32c.h"
#include "exec/run/checkpoint.h"
#include "exec/run/checkpoint_file.h"
#include "exec/run/checkpoint_folder.h"
#include "kernels/host/philox.h"
#include "tests/draw.h"
#include "tests/exec/checkpoint_runs.h"
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- damage ------------------------------------------------------------------------------- */

/* Two ranks save checkpoints of steps 1 and 2; then the newer checkpoint is damaged in different
 * ways. */
static bool save_each_step(struct rank *rank, const struct parity_run *run, struct err *err)
{
    bool ok = checkpoint_save(rank, checkpoint_folder, 1, err);
    struct step_result result;
    ok = ok && rank_step(rank, 2, NULL, &result, err);
    (void)run;
    return ok && checkpoint_save(rank, checkpoint_folder, 2, err);
}

static void save_two(const char *layout)
{
    struct model model = parity_gpt();
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_ADAM);
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
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_ADAM);
    struct parity_result result;
    run.before = before;
    parity_run(&model, "mb1", &run, &result);
    parity_release(&result);
}

static char *path_of(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", checkpoint_folder, name);
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
    ck_assert_msg(checkpoint_load(rank, checkpoint_folder, &state, &err), "%s: %s: %s", what,
                  err.where, err.msg);
    ck_assert_msg(state.step == 1, "%s: step %ld was loaded", what, state.step);
    ck_assert_msg(state.damage.code == ERR_INPUT, "%s: the damage was not reported", what);
}

static void bring_back(void)
{
    char from[160], to[160];
    snprintf(from, sizeof from, "%s", path_of("step-000000002.damaged"));
    snprintf(to, sizeof to, "%s", path_of("step-000000002"));
    ck_assert_int_eq(rename(from, to), 0);
}

enum { NUM_FLIPS = 60, HEAD_BYTES = 400 };

/* Flips random bits. Half of the bits are in the file's header and its table of weights, which are
 * short. */
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
    return checkpoint_load(rank, checkpoint_folder, &state, err) && state.step == 2 &&
           state.damage.code == ERR_NONE;
}

START_TEST(a_flipped_bit_is_detected_and_the_older_checkpoint_is_loaded)
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
    const size_t lengths[] = { size + 1, size + 4096, size - 1, size - 4096, size / 2, HEAD_BYTES,
                               600,      100,         0 };
    for (size_t i = 0; i < LENGTH(lengths); i++) {
        char what[40];
        snprintf(what, sizeof what, "of %zu bytes", lengths[i]);
        ck_assert_int_eq(truncate(file, (off_t)lengths[i]), 0);
        check_falls_back(rank, what);
        bring_back();
    }
    ck_assert_int_eq(unlink(file), 0);
    check_falls_back(rank, "without a file");
    return true;
}

START_TEST(a_truncated_extended_or_missing_file_is_detected)
{
    save_two("dp2 zero1");
    on_one_rank(load_cut);
}
END_TEST

/* Ways to make a file unreadable, and to undo this. */
static const char second_file[] = "step-000000002/rank-00001", hidden_file[] = "hidden";

static void hide_behind_a_loop(void)
{
    char from[160];
    snprintf(from, sizeof from, "%s", path_of(second_file));
    ck_assert_int_eq(rename(from, path_of(hidden_file)), 0);
    ck_assert_int_eq(symlink("rank-00001", from), 0);
}

static void show_again(void)
{
    char to[160];
    snprintf(to, sizeof to, "%s", path_of(second_file));
    ck_assert_int_eq(rename(path_of(hidden_file), to), 0);
}

static void forbid(void)
{
    ck_assert_int_eq(chmod(path_of(second_file), 0), 0);
}

static void allow(void)
{
    ck_assert_int_eq(chmod(path_of(second_file), 0600), 0);
}

static rlim_t files_before;

static void set_most_files(rlim_t most)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    files_before = limit.rlim_cur;
    limit.rlim_cur = most;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void take_descriptors(void)
{
    set_most_files(3);
}

static void give_descriptors(void)
{
    set_most_files(files_before);
}

static const struct {
    const char *msg;
    void (*hinder)(void), (*help)(void);
} hindrances[] = {
    { "cannot be opened: Too many levels of symbolic links", hide_behind_a_loop, show_again },
    { "cannot be listed: Too many open files", take_descriptors, give_descriptors },
    /* root may read any folder, so a test run as root omits this row, which must be the last */
    { "cannot be opened: Permission denied", forbid, allow },
};

static const char *path_of_other(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s", path_of(name));
    return path;
}

static bool fail_while_hindered(struct rank *rank, const struct parity_run *run, struct err *err)
{
    (void)run;
    for (int i = 0; i < LENGTH(hindrances) - (geteuid() == 0); i++) {
        struct checkpoint_state state;
        struct err found = { 0 };
        hindrances[i].hinder();
        bool is_loaded = checkpoint_load(rank, checkpoint_folder, &state, &found);
        hindrances[i].help();
        ck_assert_msg(!is_loaded, "%s: step %ld was loaded", hindrances[i].msg, state.step);
        ck_assert_int_eq(found.code, ERR_SYSTEM);
        ck_assert_str_eq(found.msg, hindrances[i].msg);
        ck_assert_ptr_nonnull(strstr(found.where, checkpoint_folder));
    }
    /* the newest checkpoint's first file, which has the state of the run, is unreadable too */
    struct checkpoint_state newest;
    struct err unread = { 0 };
    take_descriptors();
    bool is_found = checkpoint_newest(checkpoint_folder, &newest, &unread);
    give_descriptors();
    ck_assert(!is_found);
    ck_assert_int_eq(unread.code, ERR_SYSTEM);
    const char *hidden = path_of_other(hidden_file);
    ck_assert_int_eq(rename(path_of("step-000000002/rank-00000"), hidden), 0);
    ck_assert_int_eq(symlink("rank-00000", path_of("step-000000002/rank-00000")), 0);
    unread = (struct err){ 0 };
    ck_assert(!checkpoint_newest(checkpoint_folder, &newest, &unread));
    ck_assert_int_eq(unread.code, ERR_SYSTEM);
    ck_assert_str_eq(unread.msg, "cannot be opened: Too many levels of symbolic links");
    ck_assert_int_eq(rename(hidden, path_of("step-000000002/rank-00000")), 0);
    struct checkpoint_state state;
    return checkpoint_load(rank, checkpoint_folder, &state, err) && state.step == 2 &&
           state.damage.code == ERR_NONE;
}

/* A damaged checkpoint is renamed and an older one is loaded. Neither happens to a checkpoint that
 * exists but cannot be read. */
START_TEST(an_unreadable_checkpoint_is_not_treated_as_damaged)
{
    save_two("dp2 zero1");
    on_one_rank(fail_while_hindered);
}
END_TEST

/* Only the second rank reads the second file, which is unreadable. */
static bool fail_on_both(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    struct err found = { 0 };
    (void)run, (void)err;
    ck_assert(!checkpoint_load(rank, checkpoint_folder, &state, &found));
    ck_assert_int_eq(found.code, ERR_SYSTEM);
    return true;
}

START_TEST(a_file_that_one_rank_cannot_read_stops_all_ranks)
{
    struct model model = parity_gpt();
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_ADAM);
    struct parity_result result;
    save_two("dp2 zero1");
    hide_behind_a_loop();
    run.before = fail_on_both;
    parity_run(&model, "dp2 zero1", &run, &result);
    parity_release(&result);
    show_again();
    on_one_rank(checkpoint_load_whole);
}
END_TEST

static bool load_beside_a_pipe(struct rank *rank, const struct parity_run *run, struct err *err)
{
    (void)run, (void)err;
    ck_assert_int_eq(unlink(path_of(second_file)), 0);
    ck_assert_int_eq(mkfifo(path_of(second_file), 0600), 0);
    check_falls_back(rank, "a named pipe");
    return true;
}

START_TEST(a_named_pipe_instead_of_a_file_does_not_block)
{
    save_two("dp2 zero1");
    on_one_rank(load_beside_a_pipe);
}
END_TEST

static bool fail_to_load(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    struct err found = { 0 };
    (void)run, (void)err;
    ck_assert(!checkpoint_load(rank, checkpoint_folder, &state, &found));
    ck_assert_int_eq(found.code, ERR_INPUT);
    ck_assert_str_eq(found.where, checkpoint_folder);
    ck_assert_str_eq(found.msg, "contains no complete checkpoint");
    return true;
}

START_TEST(loading_fails_if_every_checkpoint_is_damaged)
{
    save_two("dp2");
    flip(path_of("step-000000001/rank-00000"), 5000, 3);
    flip(path_of("step-000000002/rank-00000"), 5000, 3);
    on_one_rank(fail_to_load);
}
END_TEST

START_TEST(an_empty_folder_has_no_checkpoint)
{
    struct checkpoint_state state;
    struct err err = { 0 };
    ck_assert(!checkpoint_newest(checkpoint_folder, &state, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.msg, "holds no checkpoint");
}
END_TEST

START_TEST(the_state_of_the_newest_checkpoint_is_read)
{
    struct checkpoint_state state;
    struct err err = { 0 };
    save_two("dp2");
    ck_assert_msg(checkpoint_newest(checkpoint_folder, &state, &err), "%s", err.msg);
    ck_assert_int_eq(state.step, 2);
    ck_assert_uint_eq(state.seed, 11);
    ck_assert(state.rate == 0.01F);
}
END_TEST

/* Only a folder named step-NUMBER is a checkpoint. */
START_TEST(other_names_than_a_steps_are_no_checkpoint)
{
    static const char *const names[] = { "step_000000009", "step-",           "step-9x",
                                         "step-x9",        "xstep-000000009", "step--00000009",
                                         "Step-000000009", "step- 00000009",  "step-+00000009" };
    struct checkpoint_state state;
    struct err err = { 0 };
    save_two("dp2");
    for (size_t i = 0; i < LENGTH(names); i++)
        ck_assert_int_eq(mkdir(path_of(names[i]), 0700), 0);
    ck_assert_msg(checkpoint_newest(checkpoint_folder, &state, &err), "%s", err.msg);
    ck_assert_int_eq(state.step, 2);
    ck_assert_int_eq((int)state.damage.code, ERR_NONE);
}
END_TEST

/* --- the model ---------------------------------------------------------------------------- */

/* A checkpoint is refused if any number of its model differs, and the message names the number. */
START_TEST(each_number_of_the_model_must_be_equal)
{
    struct model models[] = { parity_gpt(), parity_mixed() };
    for (int m = 0; m < LENGTH(models); m++) {
        struct err err = { 0 };
        struct checkpoint_model own = checkpoint_model_of(&models[m]), saved = own;
        ck_assert_msg(checkpoint_model_is(&saved, &models[m], &err), "%s", err.where);
#define X(name)                                                                                  \
    err = (struct err){ 0 };                                                                     \
    saved = own;                                                                                 \
    saved.name += 1;                                                                             \
    ck_assert(!checkpoint_model_is(&saved, &models[m], &err));                                   \
    ck_assert_int_eq(err.code, ERR_INPUT);                                                       \
    ck_assert_msg(strcmp(err.where, #name) == 0 || (strcmp(err.where, "blocks") == 0 &&          \
                                                    (&saved.name == (void *)&saved.num_kinds ||  \
                                                     &saved.name == (void *)&saved.blocks_sum)), \
                  "%s instead of " #name, err.where);
        CHECKPOINT_MODEL(X)
        CHECKPOINT_MODEL_REALS(X)
        X(num_kinds)
        X(blocks_sum)
#undef X
    }
}
END_TEST

/* The checksum covers the widths of all blocks, in the order of the blocks. It is 0 if the model
 * states no kinds of blocks. */
START_TEST(the_checksum_of_blocks_covers_each_blocks_widths)
{
    struct model plain = parity_gpt(), mixed = parity_mixed();
    uint32_t sum = 0;
    ck_assert_uint_eq(checkpoint_model_of(&plain).blocks_sum, 0);
    for (int layer = 0; layer < mixed.layers; layer++) {
        int32_t times = 1 + layer % 2; /* every second block is twice as wide */
        int32_t widths[] = { 4 * times, 2, 8, 96 * times };
        sum = crc32c(sum, widths, sizeof widths);
    }
    ck_assert_uint_eq(checkpoint_model_of(&mixed).blocks_sum, sum);
    ck_assert_int_eq(checkpoint_model_of(&mixed).num_kinds, 2);
}
END_TEST

/* --- the folder --------------------------------------------------------------------------- */

START_TEST(a_missing_folder_is_made_once)
{
    struct err err = { 0 };
    struct stat about;
    const char *folder = path_of("made");
    errno = 0;
    ck_assert_msg(checkpoint_folder_open(folder, &err), "%s", err.msg);
    ck_assert_int_eq(stat(folder, &about), 0);
    ck_assert(S_ISDIR(about.st_mode));
    errno = 0;
    ck_assert_msg(checkpoint_folder_open(folder, &err), "%s", err.msg);
}
END_TEST

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
        ok = checkpoint_save(rank, checkpoint_folder, step, err);
    return ok;
}

START_TEST(only_the_two_newest_checkpoints_are_kept)
{
    on_one_rank(save_five);
    ck_assert_int_eq(count_entries(checkpoint_folder), 2);
    ck_assert_int_eq(access(path_of("step-000000004/rank-00000"), F_OK), 0);
    ck_assert_int_eq(access(path_of("step-000000005/rank-00000"), F_OK), 0);
}
END_TEST

static bool save_over_rest(struct rank *rank, const struct parity_run *run, struct err *err)
{
    (void)run;
    return checkpoint_save(rank, checkpoint_folder, 2, err);
}

START_TEST(leftovers_of_a_killed_run_do_not_disturb_the_next)
{
    ck_assert_int_eq(mkdir(path_of("step-000000002.tmp"), 0777), 0);
    close(open(path_of("step-000000002.tmp/rank-00000"), O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(mkdir(path_of("step-000000009.old.tmp"), 0777), 0);
    on_one_rank(save_over_rest);
    ck_assert_int_eq(count_entries(checkpoint_folder), 1);
    on_one_rank(save_over_rest); /* saves a checkpoint with the same name */
    ck_assert_int_eq(count_entries(checkpoint_folder), 1);
}
END_TEST

static bool save_until_killed(struct rank *rank, const struct parity_run *run, struct err *err)
{
    int ready = *(int *)run->context;
    for (long step = 1;; step++)
        if (!checkpoint_save(rank, checkpoint_folder, step, err) ||
            (step == 1 && write(ready, "x", 1) != 1))
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
        struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_ADAM);
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

START_TEST(a_run_killed_while_saving_leaves_a_complete_checkpoint)
{
    struct draw draw = { .seed = told_seed() };
    for (uint64_t i = 0; i < 6; i++) {
        uint32_t word;
        draw_words(&draw, i, 1, &word);
        kill_while_saving((long)(word % 20000));
        on_one_rank(checkpoint_load_whole);
    }
}
END_TEST

/* --- slices ------------------------------------------------------------------------------- */

enum { MOST_FLOATS = CHECKPOINT_SLICE_ELEMENTS + 1 };
static float floats[MOST_FLOATS], read_back[MOST_FLOATS];

/* Whether a file with one slice can be opened and has the floats that were written. */
static bool reads_back(uint64_t columns, uint64_t count, uint32_t array)
{
    char path[128];
    struct err err = { 0 };
    struct checkpoint_file file;
    struct checkpoint_slice slice = { .name = "fc1",
                                      .array = array,
                                      .columns = columns,
                                      .count = count,
                                      .offset = sizeof(struct checkpoint_header) + sizeof slice };
    struct checkpoint_header header = { .step = 1 };
    snprintf(path, sizeof path, "%s/slice", checkpoint_folder);
    for (uint64_t i = 0; i < count; i++)
        floats[i] = (float)i / 3;
    ck_assert(checkpoint_file_create(path, 1, &file, &err));
    ck_assert(checkpoint_file_add(&file, &slice, floats, &err));
    header.num_slices = 1;
    ck_assert_msg(checkpoint_file_finish(&file, &header, &err), "%s", err.msg);
    checkpoint_file_close(&file);
    bool opens = checkpoint_file_open(path, &file, &err);
    if (opens) {
        ck_assert(checkpoint_file_read(&file, &file.slices[0], read_back, &err));
        ck_assert_mem_eq(read_back, floats, count * sizeof *floats);
        checkpoint_file_close(&file);
    }
    unlink(path);
    return opens;
}

START_TEST(a_slice_has_columns_elements_and_an_array)
{
    const uint32_t last = CHECKPOINT_KEPT + MAX_CHECKPOINT_KEPT - 1;
    ck_assert(reads_back(1, 1, 0));
    ck_assert(reads_back(1, CHECKPOINT_SLICE_ELEMENTS, last));
    ck_assert(reads_back(7, 5, last));
    ck_assert(!reads_back(0, 5, 0));
    ck_assert(!reads_back(7, 0, 0));
    ck_assert(!reads_back(7, CHECKPOINT_SLICE_ELEMENTS + 1, 0));
    ck_assert(!reads_back(7, 5, last + 1));
}
END_TEST

static void check_unwritten(bool written, const char *path, struct err *err)
{
    ck_assert(!written);
    ck_assert_int_eq(err->code, ERR_SYSTEM);
    ck_assert_str_eq(err->where, path);
    *err = (struct err){ 0 };
}

/* A file of zeros has no header. Descriptor -1 takes no bytes. /dev/null takes bytes, but has no
 * disk to which they could be flushed. */
START_TEST(an_error_of_a_file_names_its_path)
{
    char path[128];
    struct err err = { 0 };
    struct checkpoint_file file;
    snprintf(path, sizeof path, "%s/zeros", checkpoint_folder);
    ck_assert(checkpoint_file_create(path, 0, &file, &err));
    ck_assert_int_eq(ftruncate(file.fd, 4096), 0);
    checkpoint_file_close(&file);
    ck_assert(!checkpoint_file_open(path, &file, &err));
    ck_assert_str_eq(err.where, path);
    ck_assert_int_eq(unlink(path), 0);
    err = (struct err){ 0 };
    ck_assert(checkpoint_file_create(path, 0, &file, &err));
    const struct checkpoint_header header = { .step = 1 };
    int fd = file.fd;
    file.fd = -1;
    check_unwritten(checkpoint_file_finish(&file, &header, &err), path, &err);
    file.fd = open("/dev/null", O_WRONLY);
    check_unwritten(checkpoint_file_flush(&file, &err), path, &err);
    check_unwritten(checkpoint_file_finish(&file, &header, &err), path, &err);
    close(file.fd);
    file.fd = fd;
    checkpoint_file_close(&file);
    unlink(path);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("checkpoint");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, checkpoint_folder_make, checkpoint_folder_remove);
    tcase_add_test(tc, a_flipped_bit_is_detected_and_the_older_checkpoint_is_loaded);
    tcase_add_test(tc, a_truncated_extended_or_missing_file_is_detected);
    tcase_add_test(tc, an_unreadable_checkpoint_is_not_treated_as_damaged);
    tcase_add_test(tc, a_file_that_one_rank_cannot_read_stops_all_ranks);
    tcase_add_test(tc, a_named_pipe_instead_of_a_file_does_not_block);
    tcase_add_test(tc, loading_fails_if_every_checkpoint_is_damaged);
    tcase_add_test(tc, an_empty_folder_has_no_checkpoint);
    tcase_add_test(tc, the_state_of_the_newest_checkpoint_is_read);
    tcase_add_test(tc, other_names_than_a_steps_are_no_checkpoint);
    tcase_add_test(tc, only_the_two_newest_checkpoints_are_kept);
    tcase_add_test(tc, leftovers_of_a_killed_run_do_not_disturb_the_next);
    tcase_add_test(tc, a_run_killed_while_saving_leaves_a_complete_checkpoint);
    tcase_add_test(tc, a_slice_has_columns_elements_and_an_array);
    tcase_add_test(tc, an_error_of_a_file_names_its_path);
    tcase_add_test(tc, each_number_of_the_model_must_be_equal);
    tcase_add_test(tc, the_checksum_of_blocks_covers_each_blocks_widths);
    tcase_add_test(tc, a_missing_folder_is_made_once);
    Suite *s = suite_create("exec/checkpoint: files");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
