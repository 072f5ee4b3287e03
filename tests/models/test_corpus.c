#include "tests/testing.h"

#include "base/file.h"
#include "models/corpus.h"

#include <stdlib.h>
#include <string.h>

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];
    struct err err = { 0 };
    ck_assert_msg(corpus_path(name, path, &err), "%s: %s", err.where, err.msg);
    return path;
}

/* A text must have at least 100 kB, more than a small model can memorise in a few steps. */
START_TEST(each_shipped_text_is_complete_with_source_and_licence)
{
    struct err err = { 0 };
    size_t count, length;
    struct corpus *all = corpora(&count, &err);
    ck_assert_msg(all != NULL, "%s: %s", err.where, err.msg);
    ck_assert_uint_gt(count, 0);
    for (size_t i = 0; i < count; i++) {
        char *bytes = file_read(path_of(all[i].name), FILE_MAX_BYTES, &length, &err);
        ck_assert_msg(bytes && length > 100000, "%s is missing or too short", all[i].name);
        ck_assert(all[i].summary[0] && all[i].source[0] && all[i].licence[0]);
        free(bytes);
    }
    free(all);
}
END_TEST

START_TEST(a_path_to_a_text_is_used_unchanged)
{
    ck_assert_str_eq(path_of("./workshop"), "./workshop");
    ck_assert_str_eq(path_of("none.txt"), "none.txt");
    ck_assert_str_eq(path_of("Makefile"), "Makefile"); /* a file in the folder where tests run */
}
END_TEST

START_TEST(an_unknown_name_is_refused_with_the_nearest)
{
    struct err err = { 0 };
    char path[PATH_MAX];
    ck_assert(!corpus_path("workshp", path, &err));
    ck_assert_int_eq(err.code, ERR_USAGE);
    ck_assert_str_eq(err.where, "workshp");
    ck_assert_ptr_nonnull(strstr(err.msg, "\"workshop\""));
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("corpus");
    tcase_add_test(tc, each_shipped_text_is_complete_with_source_and_licence);
    tcase_add_test(tc, a_path_to_a_text_is_used_unchanged);
    tcase_add_test(tc, an_unknown_name_is_refused_with_the_nearest);
    Suite *s = suite_create("models/corpus");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
