#include "base/file.h"
#include "base/json.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];
static struct json_file file;

static void make_path(void)
{
    strcpy(path, "/tmp/test_json.XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void remove_path(void)
{
    json_file_release(&file);
    unlink(path);
}

static bool load_bytes(const char *bytes, size_t length, struct err *err)
{
    ck_assert(file_write(path, bytes, length, err));
    return json_file_load(&file, path, err);
}

static void load(const char *text)
{
    struct err err = { 0 };
    ck_assert_msg(load_bytes(text, strlen(text), &err), "%s: %s", err.where, err.msg);
}

/* Checks that a file is rejected. `place` is the part of the error's `where` that follows the path.
 */
static void assert_refused(const char *bytes, size_t length, const char *place, const char *msg)
{
    struct err err = { 0 };
    ck_assert(!load_bytes(bytes, length, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_int_eq(strncmp(err.where, path, strlen(path)), 0);
    ck_assert_str_eq(err.where + strlen(path), place);
    ck_assert_msg(strstr(err.msg, msg), "\"%s\" is not in \"%s\"", msg, err.msg);
    ck_assert_ptr_null(file.root);
    ck_assert_ptr_null(file.text);
}

START_TEST(a_file_is_loaded_with_its_path_and_text)
{
    load("{\"a\": 1}\n");
    ck_assert_str_eq(file.path, path);
    ck_assert_str_eq(file.text, "{\"a\": 1}\n");
    ck_assert_int_eq(json_integer_value(json_object_get(file.root, "a")), 1);
}
END_TEST

static const struct {
    const char *text;
    const char *place;
    const char *msg;
} faults[] = {
    { "{\n\"a\": 1\n\"b\": 2}", ":3", "is not valid JSON: " },
    { "{\"a\": 1,\n}", ":2", "is not valid JSON: " },
    { "{\"a\": 1} 2", ":1", "is not valid JSON: " },
    { "{\"a\": NaN}", ":1", "is not valid JSON: " },
    { "{\"a\": 1e999}", ":1", "is not valid JSON: " },
    { "{\"a\": \"\xff\"}", ":1", "is not valid JSON: " },
    { "{\"a\": 1,\n\"a\": 2}", ":2", "duplicate" },
    { "{\n\"a\": {", ":2", "is not valid JSON: " },
    { "\n\"text\"", ":2", "is not valid JSON: " },
    { "", ":1", "is not valid JSON: " },
    { "[1, 2]", "", "expected a JSON object; found an array" },
};
enum { NUM_FAULTS = LENGTH(faults) };

START_TEST(a_fault_in_the_text_names_its_line)
{
    assert_refused(faults[_i].text, strlen(faults[_i].text), faults[_i].place, faults[_i].msg);
}
END_TEST

START_TEST(a_nul_byte_is_refused_with_its_line)
{
    static const char text[] = "{\n\"a\": \"x\0y\"}";
    assert_refused(text, sizeof text - 1, ":2", "expected JSON text; found a NUL byte");
}
END_TEST

START_TEST(the_error_about_an_absent_file_names_its_path)
{
    struct err err = { 0 };
    ck_assert(!json_file_load(&file, "/nonexistent.json", &err));
    ck_assert_str_eq(err.where, "/nonexistent.json");
}
END_TEST

START_TEST(the_error_about_a_file_over_16_mib_names_its_path)
{
    size_t length = FILE_MAX_BYTES + 1;
    char *text = malloc(length);
    memset(text, ' ', length);
    assert_refused(text, length, "", "expected at most 16777216 bytes; the file has more");
    free(text);
}
END_TEST

/* Writes {"a":[[[...]]]} with one bracket per line. */
static size_t nest(char *text, int depth)
{
    char *at = text + sprintf(text, "{\"a[[[\\\"{{{\":");
    for (int i = 1; i < depth; i++)
        at += sprintf(at, "\n[");
    for (int i = 1; i < depth; i++)
        *at++ = ']';
    *at++ = '}';
    return (size_t)(at - text);
}

START_TEST(brackets_nest_64_deep_and_no_deeper)
{
    char text[1000];
    struct err err = { 0 };
    ck_assert(load_bytes(text, nest(text, 64), &err));
    json_file_release(&file);
    assert_refused(text, nest(text, 65), ":65", "expected at most 64 nested levels; found more");
}
END_TEST

START_TEST(a_million_open_brackets_are_refused_quickly)
{
    size_t length = 1 << 20;
    char *text = malloc(length);
    memset(text, '[', length);
    assert_refused(text, length, ":1", "expected at most 64 nested levels; found more");
    free(text);
}
END_TEST

START_TEST(an_empty_file_struct_can_be_released_twice)
{
    json_file_release(&file);
    json_file_release(&file);
    ck_assert_ptr_null(file.root);
}
END_TEST

static const char cluster[] = "{\n"                                      /* 1 */
                              "  \"name\": \"a \\\" { [ groups\",\n"     /* 2 */
                              "  \"decoy\": { \"groups\": [1, 2] },\n"   /* 3 */
                              "  \"groups\": [\n"                        /* 4 */
                              "    { \"levels\": [\n"                    /* 5 */
                              "        { \"bandwidth\": \"1 GB/s\" },\n" /* 6 */
                              "        {\n"                              /* 7 */
                              "          \"latency\": 1.5e-3,\n"         /* 8 */
                              "          \"bandwidth\"\n"                /* 9 */
                              "            : 5\n"                        /* 10 */
                              "        } ] },\n"                         /* 11 */
                              "    {}, [], -1, null,\n"                  /* 12 */
                              "    true\n"                               /* 13 */
                              "  ],\n"                                   /* 14 */
                              "  \"dotted.key\": { \"x\": 1,\n"          /* 15 */
                              "     \"y\": 2 },\n"                       /* 16 */
                              "  \"groupsize\": 1\n"                     /* 17 */
                              "}\n";

static const struct {
    const char *key_path;
    const char *place;
} blames[] = {
    { "name", ":2: name" },
    { "groups", ":4: groups" },
    { "groups[0]", ":5: groups[0]" },
    { "groups[0].levels", ":5: groups[0].levels" },
    { "groups[0].levels[0].bandwidth", ":6: groups[0].levels[0].bandwidth" },
    { "groups[0].levels[1]", ":7: groups[0].levels[1]" },
    { "groups[0].levels[1].latency", ":8: groups[0].levels[1].latency" },
    { "groups[0].levels[1].bandwidth", ":9: groups[0].levels[1].bandwidth" },
    { "groups[1]", ":12: groups[1]" },
    { "groups[4]", ":12: groups[4]" },
    { "groups[5]", ":13: groups[5]" },
    { "dotted.key.y", ":16: dotted.key.y" },
    { "groupsize", ":17: groupsize" },
    /* A missing key is located at the innermost existing object. */
    { "absent", ":1: absent" },
    { "groups[0].levels[1].absent", ":7: groups[0].levels[1].absent" },
    { "groups[0].absent.deeper", ":5: groups[0].absent.deeper" },
    { "groups[6]", ":4: groups[6]" },
    { "groups[1].x", ":12: groups[1].x" },
    { "groups[2][0]", ":12: groups[2][0]" },
    { "groups.x", ":4: groups.x" },
    { "groups[x]", ":4: groups[x]" },
    { "groups[-1]", ":4: groups[-1]" },
    { "name.x", ":2: name.x" },
    { "group", ":1: group" },
    { "", "" },
};
enum { NUM_BLAMES = LENGTH(blames) };

START_TEST(the_line_of_a_key_path_is_found)
{
    struct err err = { 0 };
    load(cluster);
    err_set(&err, ERR_INPUT, blames[_i].key_path, "is wrong");
    ck_assert(!json_file_blame(&file, &err));
    ck_assert_int_eq(strncmp(err.where, path, strlen(path)), 0);
    ck_assert_str_eq(err.where + strlen(path), blames[_i].place);
    ck_assert_str_eq(err.msg, "is wrong");
}
END_TEST

START_TEST(the_end_of_a_too_long_path_is_shown)
{
    char deep[300];
    memset(deep, 'x', sizeof deep);
    strcpy(deep + sizeof deep - sizeof "/h200.json", "/h200.json");
    char text[] = "{}";
    struct json_file borrowed = { .path = deep, .text = text };
    struct err err = { 0 };
    err_set(&err, ERR_INPUT, "memory", "is missing");
    json_file_blame(&borrowed, &err);
    ck_assert_ptr_nonnull(strstr(err.where, "xx/h200.json:1: memory"));
}
END_TEST

START_TEST(text_is_one_line_in_the_order_of_insertion)
{
    json_t *json = json_pack("{si sf s[ii]}", "z", 1, "a", 0.1, "m", 1, 2);
    char *text = json_text(json, 0);
    ck_assert_str_eq(text, "{\"z\": 1, \"a\": 0.10000000000000001, \"m\": [1, 2]}");
    free(text);
    json_decref(json);
}
END_TEST

START_TEST(text_can_be_indented)
{
    json_t *json = json_pack("{si}", "a", 1);
    char *text = json_text(json, 2);
    ck_assert_str_eq(text, "{\n  \"a\": 1\n}");
    free(text);
    json_decref(json);
}
END_TEST

static const char *const known[] = { "bandwidth", "latency" };

static void assert_keys_refused(const char *key, const char *msg)
{
    struct err err = { 0 };
    json_t *json = json_pack("{si si}", "latency", 1, key, 1);
    ck_assert(!json_only_keys(json, known, 2, &err));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_str_eq(err.where, key);
    ck_assert_str_eq(err.msg, msg);
    json_decref(json);
}

START_TEST(an_unknown_key_is_refused_with_the_nearest_name)
{
    assert_keys_refused("bandwith", "is not a known key; did you mean \"bandwidth\"?");
}
END_TEST

START_TEST(an_unknown_key_without_a_similar_name_is_refused_with_all_names)
{
    assert_keys_refused("price", "is not a known key; expected one of bandwidth, latency");
}
END_TEST

START_TEST(known_keys_are_accepted)
{
    struct err err = { 0 };
    json_t *json = json_pack("{si}", "latency", 1);
    ck_assert(json_only_keys(json, known, 2, &err));
    ck_assert_int_eq(err.code, ERR_NONE);
    json_decref(json);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("json");
    tcase_add_checked_fixture(tc, make_path, remove_path);
    tcase_add_test(tc, a_file_is_loaded_with_its_path_and_text);
    tcase_add_loop_test(tc, a_fault_in_the_text_names_its_line, 0, NUM_FAULTS);
    tcase_add_test(tc, a_nul_byte_is_refused_with_its_line);
    tcase_add_test(tc, the_error_about_an_absent_file_names_its_path);
    tcase_add_test(tc, the_error_about_a_file_over_16_mib_names_its_path);
    tcase_add_test(tc, brackets_nest_64_deep_and_no_deeper);
    tcase_add_test(tc, a_million_open_brackets_are_refused_quickly);
    tcase_add_test(tc, an_empty_file_struct_can_be_released_twice);
    tcase_add_loop_test(tc, the_line_of_a_key_path_is_found, 0, NUM_BLAMES);
    tcase_add_test(tc, the_end_of_a_too_long_path_is_shown);
    tcase_add_test(tc, text_is_one_line_in_the_order_of_insertion);
    tcase_add_test(tc, text_can_be_indented);
    tcase_add_test(tc, an_unknown_key_is_refused_with_the_nearest_name);
    tcase_add_test(tc, an_unknown_key_without_a_similar_name_is_refused_with_all_names);
    tcase_add_test(tc, known_keys_are_accepted);
    Suite *s = suite_create("base/json");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
