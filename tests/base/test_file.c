#include "base/arena.h"
#include "base/file.h"
#include "tests/testing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

/* Makes a separate folder for each test. */
static void make_folder(void)
{
    strcpy(folder, "/tmp/test_file.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int num_entries(void)
{
    int count = 0;
    DIR *listing = opendir(folder);
    for (struct dirent *entry = readdir(listing); entry; entry = readdir(listing))
        count += entry->d_name[0] != '.';
    closedir(listing);
    return count;
}

/* Removes the test's files, links and FIFOs in the folder, and empty folders below it. */
static void remove_folder(void)
{
    DIR *listing = opendir(folder);
    for (struct dirent *entry = readdir(listing); entry; entry = readdir(listing))
        if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2)
            remove(in_folder(entry->d_name));
    closedir(listing);
    rmdir(folder);
}

static void write_file(const char *name, const char *text)
{
    struct err err = { 0 };
    ck_assert_msg(file_write(in_folder(name), text, strlen(text), &err), "%s", err.msg);
}

static void assert_read_fails(const char *path, size_t max_bytes, enum err_code code)
{
    struct err err = { 0 };
    ck_assert_ptr_null(file_read(path, max_bytes, NULL, &err));
    ck_assert_int_eq(err.code, code);
    ck_assert_str_eq(err.where, path);
}

static void assert_write_fails(const char *path, enum err_code code)
{
    struct err err = { 0 };
    ck_assert(!file_write(path, "x", 1, &err));
    ck_assert_int_eq(err.code, code);
    ck_assert_str_eq(err.where, path);
}

START_TEST(a_written_file_reads_back_equal)
{
    struct err err = { 0 };
    size_t length;
    ck_assert(file_write(in_folder("a"), "one\0two", 7, &err));
    char *bytes = file_read(in_folder("a"), FILE_MAX_BYTES, &length, &err);
    ck_assert_uint_eq(length, 7);
    ck_assert_mem_eq(bytes, "one\0two", 8); /* the eighth byte is the NUL that ends the text */
    free(bytes);
}
END_TEST

START_TEST(an_empty_file_reads_as_an_empty_text)
{
    struct err err = { 0 };
    write_file("a", "");
    char *text = file_read(in_folder("a"), FILE_MAX_BYTES, NULL, &err);
    ck_assert_str_eq(text, "");
    free(text);
}
END_TEST

START_TEST(a_file_of_a_megabyte_is_read_whole)
{
    struct err err = { 0 };
    size_t length, megabyte = 1 << 20;
    char *bytes = malloc(megabyte);
    memset(bytes, 'x', megabyte);
    ck_assert(file_write(in_folder("a"), bytes, megabyte, &err));
    char *again = file_read(in_folder("a"), megabyte, &length, &err);
    ck_assert_uint_eq(length, megabyte);
    ck_assert_mem_eq(again, bytes, megabyte);
    free(again);
    free(bytes);
}
END_TEST

START_TEST(a_file_in_proc_that_claims_to_be_empty_is_read)
{
    struct err err = { 0 };
    char *text = file_read("/proc/self/status", FILE_MAX_BYTES, NULL, &err);
    ck_assert_ptr_nonnull(strstr(text, "Name:"));
    free(text);
}
END_TEST

START_TEST(a_file_of_exactly_the_limit_is_read_and_one_byte_more_is_refused)
{
    struct err err = { 0 };
    write_file("a", "12345");
    char *text = file_read(in_folder("a"), 5, NULL, &err);
    ck_assert_str_eq(text, "12345");
    free(text);
    assert_read_fails(in_folder("a"), 4, ERR_INPUT);
}
END_TEST

START_TEST(the_error_about_an_absent_file_names_its_path)
{
    assert_read_fails(in_folder("absent"), FILE_MAX_BYTES, ERR_INPUT);
}
END_TEST

START_TEST(a_folder_is_not_read)
{
    assert_read_fails(folder, FILE_MAX_BYTES, ERR_INPUT);
}
END_TEST

START_TEST(a_fifo_is_refused_without_waiting)
{
    ck_assert_int_eq(mkfifo(in_folder("fifo"), 0600), 0);
    assert_read_fails(in_folder("fifo"), FILE_MAX_BYTES, ERR_INPUT);
}
END_TEST

START_TEST(writing_replaces_and_leaves_nothing_else)
{
    write_file("a", "a long first text");
    write_file("a", "second");
    struct err err = { 0 };
    char *text = file_read(in_folder("a"), FILE_MAX_BYTES, NULL, &err);
    ck_assert_str_eq(text, "second");
    ck_assert_int_eq(num_entries(), 1);
    free(text);
}
END_TEST

/* The mode of a file before and after writing. A `before` of 0 means that there is no file yet. */
static const struct {
    mode_t umask, before, after;
} modes[] = {
    { 022, 0, 0644 }, { 027, 0, 0640 }, { 077, 0, 0600 }, { 022, 0600, 0600 }, { 077, 0664, 0664 },
};

START_TEST(a_new_file_keeps_the_umask_and_an_existing_one_its_mode)
{
    struct stat about;
    if (modes[_i].before != 0) {
        write_file("a", "first");
        ck_assert_int_eq(chmod(in_folder("a"), modes[_i].before), 0);
    }
    umask(modes[_i].umask);
    write_file("a", "text");
    ck_assert_int_eq(stat(in_folder("a"), &about), 0);
    ck_assert_uint_eq(about.st_mode & 0777, modes[_i].after);
}
END_TEST

/* --- standard input ----------------------------------------------------------------------- */

static void assert_input_is(const char *expected)
{
    struct err err = { 0 };
    char *text = file_read("-", FILE_MAX_BYTES, NULL, &err);
    ck_assert_msg(text != NULL, "%s: %s", err.where, err.msg);
    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(standard_input_can_be_read_twice)
{
    int ends[2];
    if (_i == 0) {
        ck_assert_int_eq(pipe(ends), 0);
        ck_assert_int_eq(write(ends[1], "{ }\n", 4), 4);
        close(ends[1]);
        dup2(ends[0], STDIN_FILENO);
    } else {
        write_file("a", "{ }\n");
        ck_assert_ptr_nonnull(freopen(in_folder("a"), "r", stdin));
    }
    assert_input_is("{ }\n");
    assert_input_is("{ }\n");
}
END_TEST

START_TEST(paths_are_distinguished_from_names)
{
    ck_assert(file_is_path("-", ".json") && file_is_path("a/b", ".json") &&
              file_is_path("b.json", ".json"));
    ck_assert(!file_is_path("b.json", ".txt") && !file_is_path("h100", ".json"));
    ck_assert_str_eq(file_own_name("a/b/c.json"), "c.json");
    ck_assert_str_eq(file_own_name("c.json"), "c.json");
    ck_assert_str_eq(file_own_name("a/"), "");
    ck_assert_str_eq(file_shown("-"), "standard input");
    ck_assert_str_eq(file_shown("a"), "a");
}
END_TEST

/* --- memory that runs out in a library ---------------------------------------------------- */

static bool has_no_memory;

/* Replaces the C library's function by one that runs out of memory. */
DIR *opendir(const char *path)
{
    if (has_no_memory) {
        errno = ENOMEM;
        return NULL;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? NULL : fdopendir(fd);
}

static void exit_with_9(size_t bytes)
{
    (void)bytes;
    exit(9);
}

START_TEST(a_listing_that_runs_out_of_memory_is_an_error)
{
    size_t count;
    arena_on_exhaustion(exit_with_9);
    has_no_memory = true;
    free(file_list_json(folder, &count));
}
END_TEST

START_TEST(a_leftover_temporary_file_does_not_block_the_next_write)
{
    char name[64];
    snprintf(name, sizeof name, "a.%ld-0.tmp", (long)getpid());
    write_file(name, "left over");
    write_file("a", "text");
    ck_assert(file_exists(in_folder("a")));
    ck_assert(file_exists(in_folder(name)));
}
END_TEST

START_TEST(the_error_about_writing_into_an_absent_folder_names_the_path)
{
    assert_write_fails(in_folder("absent/a"), ERR_SYSTEM);
}
END_TEST

START_TEST(writing_over_a_folder_or_a_device_is_refused)
{
    assert_write_fails(folder, ERR_INPUT);
    assert_write_fails("/dev/null", ERR_INPUT);
}
END_TEST

START_TEST(writing_over_a_link_is_refused_and_its_target_kept)
{
    write_file("target", "kept");
    char target[256];
    strcpy(target, in_folder("target"));
    ck_assert_int_eq(symlink(target, in_folder("link")), 0);
    assert_write_fails(in_folder("link"), ERR_INPUT);
    struct err err = { 0 };
    char *text = file_read(target, FILE_MAX_BYTES, NULL, &err);
    ck_assert_str_eq(text, "kept");
    free(text);
}
END_TEST

START_TEST(is_file_is_true_only_for_regular_files)
{
    write_file("a", "");
    ck_assert(file_exists(in_folder("a")));
    ck_assert(!file_exists(in_folder("b")));
    ck_assert(!file_exists(folder));
}
END_TEST

START_TEST(json_files_are_listed_sorted_and_without_their_ending)
{
    static const char *const files[] = { "h200.json", "a100.json",  "notes.txt", ".hidden.json",
                                         ".json",     "b.json.bak", "h100.json" };
    for (size_t i = 0; i < LENGTH(files); i++)
        write_file(files[i], "{}");
    size_t count;
    char **names = file_list_json(folder, &count);
    ck_assert_uint_eq(count, 3);
    ck_assert_str_eq(names[0], "a100");
    ck_assert_str_eq(names[1], "h100");
    ck_assert_str_eq(names[2], "h200");
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}
END_TEST

START_TEST(an_absent_folder_has_no_json_files)
{
    size_t count = 1;
    ck_assert_ptr_null(file_list_json(in_folder("absent"), &count));
    ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(the_environment_chooses_the_data_folder)
{
    char path[PATH_MAX];
    mkdir(in_folder("hardware"), 0700);
    setenv("SIMSEARCH_DATA", folder, 1);
    ck_assert(file_data_folder("hardware", path, sizeof path));
    ck_assert_str_eq(path, in_folder("hardware"));
}
END_TEST

START_TEST(a_folder_absent_from_the_chosen_data_is_not_searched_elsewhere)
{
    char path[PATH_MAX];
    setenv("SIMSEARCH_DATA", folder, 1);
    ck_assert(!file_data_folder("models/presets", path, sizeof path));
}
END_TEST

START_TEST(a_path_that_does_not_fit_is_not_found)
{
    char path[8];
    mkdir(in_folder("hardware"), 0700);
    setenv("SIMSEARCH_DATA", folder, 1);
    ck_assert(!file_data_folder("hardware", path, sizeof path));
}
END_TEST

/* The tests are run from the root of the tree and built in build/VARIANT/tests. */
START_TEST(a_binary_in_the_source_tree_finds_the_data_of_the_tree)
{
    char path[PATH_MAX], root[PATH_MAX], binary[PATH_MAX];
    unsetenv("SIMSEARCH_DATA");
    ck_assert_ptr_nonnull(getcwd(root, sizeof root));
    ssize_t length = readlink("/proc/self/exe", binary, sizeof binary);
    if (length < (ssize_t)strlen(root) || strncmp(binary, root, strlen(root)) != 0)
        return;
    ck_assert(file_data_folder("models/presets", path, sizeof path));
    ck_assert_int_eq(strncmp(path, root, strlen(root)), 0);
    ck_assert_str_eq(path + strlen(root), "/models/presets");
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("file");
    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, a_written_file_reads_back_equal);
    tcase_add_test(tc, an_empty_file_reads_as_an_empty_text);
    tcase_add_test(tc, a_file_of_a_megabyte_is_read_whole);
    tcase_add_test(tc, a_file_in_proc_that_claims_to_be_empty_is_read);
    tcase_add_test(tc, a_file_of_exactly_the_limit_is_read_and_one_byte_more_is_refused);
    tcase_add_test(tc, the_error_about_an_absent_file_names_its_path);
    tcase_add_test(tc, a_folder_is_not_read);
    tcase_add_test(tc, a_fifo_is_refused_without_waiting);
    tcase_add_test(tc, writing_replaces_and_leaves_nothing_else);
    tcase_add_loop_test(tc, a_new_file_keeps_the_umask_and_an_existing_one_its_mode, 0,
                        LENGTH(modes));
    tcase_add_loop_test(tc, standard_input_can_be_read_twice, 0, 2);
    tcase_add_test(tc, paths_are_distinguished_from_names);
    tcase_add_exit_test(tc, a_listing_that_runs_out_of_memory_is_an_error, 9);
    tcase_add_test(tc, a_leftover_temporary_file_does_not_block_the_next_write);
    tcase_add_test(tc, the_error_about_writing_into_an_absent_folder_names_the_path);
    tcase_add_test(tc, writing_over_a_folder_or_a_device_is_refused);
    tcase_add_test(tc, writing_over_a_link_is_refused_and_its_target_kept);
    tcase_add_test(tc, is_file_is_true_only_for_regular_files);
    tcase_add_test(tc, json_files_are_listed_sorted_and_without_their_ending);
    tcase_add_test(tc, an_absent_folder_has_no_json_files);
    tcase_add_test(tc, the_environment_chooses_the_data_folder);
    tcase_add_test(tc, a_folder_absent_from_the_chosen_data_is_not_searched_elsewhere);
    tcase_add_test(tc, a_path_that_does_not_fit_is_not_found);
    tcase_add_test(tc, a_binary_in_the_source_tree_finds_the_data_of_the_tree);
    Suite *s = suite_create("base/file");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
