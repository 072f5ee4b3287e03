#include "tests/testing.h"

#include "calibration/rows/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER  "id,source_key,gpu,core,n_gpus,layers,hidden,heads,vocab,seq,gbs_seqs,mbs,dp,tp,pp"
#define NUMBERS "8,24,1024,16,50257,1024,64,4,8,1,1"
#define ROW(id) id ",mine,A100-80GB-SXM,1," NUMBERS

static struct arena arena;
static struct run_rows rows;
static struct err err;
static char path[] = "/tmp/simsearch-runs-XXXXXX";

/* Loads `length` bytes as a file. */
static bool load_bytes(const char *bytes, size_t length)
{
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    close(fd);
    bool ok = runs_load(path, &arena, &rows, &err);
    unlink(path);
    return ok;
}

static bool load(const char *text)
{
    return load_bytes(text, strlen(text));
}

static void must_load(const char *text)
{
    ck_assert_msg(load(text), "%s: %s", err.where, err.msg);
}

/* Checks that the error is at "LINE: column" of the file and contains `msg`. */
static void must_fail(const char *text, const char *place, const char *msg)
{
    ck_assert(!load(text));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_msg(strncmp(err.where, path, strlen(path)) == 0, "%s", err.where);
    ck_assert_str_eq(err.where + strlen(path) + 1, place);
    ck_assert_msg(strstr(err.msg, msg), "%s", err.msg);
}

static void release(void)
{
    arena_release(&arena);
}

START_TEST(columns_are_found_by_their_names)
{
    must_load("pp,tp,dp,mbs,gbs_seqs,seq,vocab,heads,hidden,layers,n_gpus,core,gpu,source_key,id\n"
              "1,2,4,8,64,1024,50257,16,2048,24,8,1,A100-80GB-SXM,mine,a\n");
    ck_assert_int_eq(rows.count, 1);
    const struct run_row *row = &rows.at[0];
    ck_assert_str_eq(row->id, "a");
    ck_assert_str_eq(row->source_key, "mine");
    ck_assert_str_eq(row->gpu, "A100-80GB-SXM");
    ck_assert(row->core);
    ck_assert_double_eq(row->pp, 1);
    ck_assert_double_eq(row->tp, 2);
    ck_assert_double_eq(row->mbs, 8);
    ck_assert_double_eq(row->hidden, 2048);
    ck_assert_int_eq(row->line, 2);
}
END_TEST

START_TEST(absent_values_are_minus_one_or_empty)
{
    must_load(HEADER ",vpp,inferred\na,mine,,,8,24,1024,16,,1024,64,4,8,1,1,,\n");
    const struct run_row *row = &rows.at[0];
    ck_assert_double_eq(row->vocab, -1);
    ck_assert_double_eq(row->vpp, -1);
    ck_assert_double_eq(row->measured_iter_s, -1); /* the column is missing */
    ck_assert_str_eq(row->gpu, "");
    ck_assert_str_eq(row->inferred, "");
    ck_assert_str_eq(row->software, "");
    ck_assert(!row->core);
}
END_TEST

START_TEST(a_quoted_field_may_hold_commas_quotes_and_line_ends)
{
    must_load(HEADER ",inferred,network\n" ROW("a") ",\"one, \"\"two\"\"\nthree\",\"\"\n" ROW(
        "b") ",plain,\"x\"\n");
    ck_assert_int_eq(rows.count, 2);
    ck_assert_str_eq(rows.at[0].inferred, "one, \"two\"\nthree");
    ck_assert_str_eq(rows.at[0].network, "");
    ck_assert_str_eq(rows.at[1].network, "x");
    ck_assert_int_eq(rows.at[1].line, 4);
}
END_TEST

START_TEST(lines_may_end_in_crlf)
{
    must_load(HEADER ",inferred\r\n" ROW("a") ",x\r\n" ROW("b") ",\"y\"\r\n");
    ck_assert_int_eq(rows.count, 2);
    ck_assert_str_eq(rows.at[0].inferred, "x");
    ck_assert_str_eq(rows.at[1].inferred, "y");
}
END_TEST

START_TEST(the_last_line_needs_no_end_and_empty_lines_are_no_rows)
{
    must_load(HEADER "\n\n" ROW("a") "\n\n\n" ROW("b"));
    ck_assert_int_eq(rows.count, 2);
    ck_assert_double_eq(rows.at[1].pp, 1);
    ck_assert_int_eq(rows.at[1].line, 6);
}
END_TEST

START_TEST(a_byte_order_mark_is_not_part_of_the_first_name)
{
    must_load("\xEF\xBB\xBF" HEADER "\n" ROW("a") "\n");
    ck_assert_str_eq(rows.at[0].id, "a");
}
END_TEST

START_TEST(a_quote_within_a_plain_field_is_kept)
{
    must_load(HEADER ",inferred\n" ROW("a") ",5\" disk\n");
    ck_assert_str_eq(rows.at[0].inferred, "5\" disk");
}
END_TEST

START_TEST(unknown_columns_are_ignored)
{
    must_load(HEADER ",weather,weather\n" ROW("a") ",rain,sun\n");
    ck_assert_int_eq(rows.count, 1);
}
END_TEST

START_TEST(a_header_alone_has_no_rows)
{
    must_load(HEADER "\n");
    ck_assert_int_eq(rows.count, 0);
}
END_TEST

START_TEST(an_empty_file_is_refused)
{
    must_fail("", "1", "the file is empty");
}
END_TEST

START_TEST(a_missing_column_is_named)
{
    must_fail("id,source_key,gpu,core\na,b,c,1\n", "1: n_gpus", "expected a column of this name");
}
END_TEST

START_TEST(a_duplicate_column_is_refused)
{
    must_fail(HEADER ",inferred,inferred\n" ROW("a") ",x,y\n", "1: inferred", "two columns");
}
END_TEST

START_TEST(a_non_number_is_quoted_with_line_and_column)
{
    must_fail(HEADER ",vpp\n" ROW("a") ",1\n" ROW("b") ",many\n", "3: vpp", "found \"many\"");
}
END_TEST

static const char *const bad_numbers[] = { "-1", "nan", "inf",   "0x10", "1 ",    " 1",
                                           "1e", "1,5", "1e999", "--1",  "1.2.3", "+" };

START_TEST(numbers_are_decimal_finite_and_not_negative)
{
    char text[1024];
    snprintf(text, sizeof text, HEADER ",vpp\n" ROW("a") ",\"%s\"\n", bad_numbers[_i]);
    must_fail(text, "2: vpp", "expected a number");
}
END_TEST

START_TEST(core_is_0_or_1)
{
    must_fail(HEADER "\na,mine,gpu,yes," NUMBERS "\n", "2: core", "expected 0 or 1");
}
END_TEST

START_TEST(a_row_without_an_id_is_refused)
{
    must_fail(HEADER "\n" ROW("") "\n", "2: id", "expected a name");
}
END_TEST

START_TEST(a_row_with_too_few_or_too_many_fields_is_refused)
{
    must_fail(HEADER "\n" ROW("a") ",more\n", "2", "expected 15 fields");
    err = (struct err){ 0 };
    memcpy(path + strlen(path) - 6, "XXXXXX", 6);
    must_fail(HEADER "\n" ROW("a") "\nb,mine\n", "3", "found 2");
}
END_TEST

START_TEST(the_error_of_an_unclosed_quote_names_where_it_opens)
{
    must_fail(HEADER ",inferred\n" ROW("a") ",x\n" ROW("b") ",\"y\n" ROW("c") ",z\n", "3",
              "not closed");
}
END_TEST

START_TEST(text_after_a_closing_quote_is_refused)
{
    must_fail(HEADER ",inferred\n" ROW("a") ",\"x\"y\n", "2", "after the closing quote");
}
END_TEST

START_TEST(a_nul_byte_is_refused)
{
    static const char text[] = HEADER "\n" ROW("a\0b") "\n";
    ck_assert(!load_bytes(text, sizeof text - 1));
    ck_assert_int_eq(err.code, ERR_INPUT);
    ck_assert_msg(strstr(err.msg, "control character"), "%s", err.msg);
}
END_TEST

START_TEST(an_escape_sequence_is_refused)
{
    must_fail(HEADER "\n" ROW("\x1b[31m") "\n", "2", "control character");
}
END_TEST

static const char *const bad_utf8[] = { "\xff",
                                        "\xc0\x80",
                                        "\xe0\x80\x80",
                                        "\xed\xa0\x80",
                                        "\xf0\x80\x80\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xe2\x82",
                                        "\x80",
                                        "\xf5\x80\x80\x80" };

START_TEST(text_that_is_not_utf8_is_refused)
{
    char text[1024];
    snprintf(text, sizeof text, HEADER ",inferred\n" ROW("a") ",%s\n", bad_utf8[_i]);
    must_fail(text, "2", "not UTF-8");
}
END_TEST

START_TEST(text_in_any_language_is_read)
{
    must_load(HEADER ",inferred\n" ROW("a") ",\xc2\xb5s \xe2\x82\xac \xf0\x9f\x98\x80\n");
    ck_assert_str_eq(rows.at[0].inferred, "\xc2\xb5s \xe2\x82\xac \xf0\x9f\x98\x80");
}
END_TEST

START_TEST(a_field_of_a_megabyte_is_read)
{
    size_t size = 1 << 20;
    char *text = malloc(size + 1024);
    ck_assert_ptr_nonnull(text);
    int head = sprintf(text, HEADER ",inferred\n" ROW("a") ",\"");
    memset(text + head, 'x', size);
    strcpy(text + head + size, "\"\n");
    must_load(text);
    ck_assert_uint_eq(strlen(rows.at[0].inferred), size);
    free(text);
}
END_TEST

START_TEST(more_than_1024_fields_are_refused)
{
    char text[4096];
    memset(text, ',', sizeof text);
    text[sizeof text - 1] = '\0';
    must_fail(text, "1", "more than 1024 fields");
}
END_TEST

START_TEST(many_rows_are_kept_in_the_order_of_the_file)
{
    enum { MANY = 1000 };
    char *text = malloc(MANY * 128);
    ck_assert_ptr_nonnull(text);
    int length = sprintf(text, HEADER "\n");
    for (int i = 0; i < MANY; i++)
        length += sprintf(text + length, "row%d,mine,A100,1," NUMBERS "\n", i);
    must_load(text);
    ck_assert_int_eq(rows.count, MANY);
    ck_assert_str_eq(rows.at[0].id, "row0");
    ck_assert_str_eq(rows.at[MANY - 1].id, "row999");
    free(text);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_named)
{
    ck_assert(!runs_load("no/such/runs.csv", &arena, &rows, &err));
    ck_assert_str_eq(err.where, "no/such/runs.csv");
}
END_TEST

/* 64 sequences of 1024 tokens on 8 GPUs are 8192 tokens per GPU. */
static const struct run_row step = { .n_gpus = 8,
                                     .gbs_seqs = 64,
                                     .seq = 1024,
                                     .measured_iter_s = 2,
                                     .measured_tokens_per_s_per_gpu = 1024,
                                     .derived_iter_s = 3 };

START_TEST(a_measured_iteration_time_has_priority)
{
    ck_assert_double_eq(run_measured_s(&step), 2);
}
END_TEST

START_TEST(without_a_time_throughput_is_used)
{
    struct run_row row = step;
    row.measured_iter_s = -1;
    ck_assert_double_eq(run_measured_s(&row), 8);
}
END_TEST

START_TEST(a_derived_time_has_the_lowest_priority)
{
    struct run_row row = step;
    row.measured_iter_s = -1;
    row.measured_tokens_per_s_per_gpu = -1;
    ck_assert_double_eq(run_measured_s(&row), 3);
    row.derived_iter_s = -1;
    ck_assert_double_eq(run_measured_s(&row), -1);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("runs");
    TCase *reads = tcase_create("reads");
    tcase_add_checked_fixture(reads, NULL, release);
    tcase_add_test(reads, columns_are_found_by_their_names);
    tcase_add_test(reads, absent_values_are_minus_one_or_empty);
    tcase_add_test(reads, a_quoted_field_may_hold_commas_quotes_and_line_ends);
    tcase_add_test(reads, lines_may_end_in_crlf);
    tcase_add_test(reads, the_last_line_needs_no_end_and_empty_lines_are_no_rows);
    tcase_add_test(reads, a_byte_order_mark_is_not_part_of_the_first_name);
    tcase_add_test(reads, a_quote_within_a_plain_field_is_kept);
    tcase_add_test(reads, unknown_columns_are_ignored);
    tcase_add_test(reads, a_header_alone_has_no_rows);
    tcase_add_test(reads, text_in_any_language_is_read);
    tcase_add_test(reads, a_field_of_a_megabyte_is_read);
    tcase_add_test(reads, many_rows_are_kept_in_the_order_of_the_file);
    suite_add_tcase(s, reads);

    TCase *refuses = tcase_create("refuses");
    tcase_add_checked_fixture(refuses, NULL, release);
    tcase_add_test(refuses, an_empty_file_is_refused);
    tcase_add_test(refuses, a_missing_column_is_named);
    tcase_add_test(refuses, a_duplicate_column_is_refused);
    tcase_add_test(refuses, a_non_number_is_quoted_with_line_and_column);
    tcase_add_loop_test(refuses, numbers_are_decimal_finite_and_not_negative, 0,
                        LENGTH(bad_numbers));
    tcase_add_test(refuses, core_is_0_or_1);
    tcase_add_test(refuses, a_row_without_an_id_is_refused);
    tcase_add_test(refuses, a_row_with_too_few_or_too_many_fields_is_refused);
    tcase_add_test(refuses, the_error_of_an_unclosed_quote_names_where_it_opens);
    tcase_add_test(refuses, text_after_a_closing_quote_is_refused);
    tcase_add_test(refuses, a_nul_byte_is_refused);
    tcase_add_test(refuses, an_escape_sequence_is_refused);
    tcase_add_loop_test(refuses, text_that_is_not_utf8_is_refused, 0, LENGTH(bad_utf8));
    tcase_add_test(refuses, more_than_1024_fields_are_refused);
    tcase_add_test(refuses, a_file_that_is_not_there_is_named);
    suite_add_tcase(s, refuses);

    TCase *times = tcase_create("times");
    tcase_add_test(times, a_measured_iteration_time_has_priority);
    tcase_add_test(times, without_a_time_throughput_is_used);
    tcase_add_test(times, a_derived_time_has_the_lowest_priority);
    suite_add_tcase(s, times);
    return s;
}

TEST_MAIN(suite)
