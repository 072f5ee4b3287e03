/* Compares the commands' answers with those in tests/golden/answers.txt.
 *
 * Each paragraph of that file is a question, "$ simulate --model ...", and its answer: the printed
 * text, or the JSON's non-zero numbers and its words, one line for each object. Members that repeat
 * the plan are left out, and so are times that a clock measured. Where a question writes to OUT,
 * the answer is the content of that file. Rows "SOURCE-NUMBER,predicted_s,measured_s,
 * predicted_bytes," are replaced by their sums of logarithms, one line per source. Numbers must
 * agree to 1e-9. When answers are meant to change,
 *
 * SIMSEARCH_GOLDEN=write make T=golden test
 *
 * writes all answers again: read the difference, and commit it with the reason. To add a question,
 * write a new line "$ ..." in that file and run the same command. */
#include "tests/testing.h"

#include "base/file.h"
#include "base/json.h"
#include "base/length.h"
#include "base/text.h"
#include "cli/input/command.h"
#include "tests/check_ok.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char path[] = "tests/golden/answers.txt";

enum { MOST_QUESTIONS = 512, MOST_WORDS = 64, LINE_COLUMNS = 110, MOST_BYTES = 8 << 20 };

struct paragraph {
    const char *question, *answer; /* pointers into `text`; a question ends at its '\n', an answer
                                      before the next '$' */
    int question_length, answer_length;
};

static char *text;
static bool asks_for_run;
static int comment_length; /* length of the comment that precedes the first question */
static struct paragraph paragraphs[MOST_QUESTIONS];
static int num_paragraphs;

static void read_paragraphs(void)
{
    struct err err = { 0 };
    size_t length;
    text = file_read(path, MOST_BYTES, &length, &err);
    if (!text)
        return; /* the test the_file_has_many_questions then fails */
    const char *at = *text == '$' ? text : strstr(text, "\n$");
    comment_length = at ? (int)(at - text) + (*at == '\n') : (int)length;
    while (at && num_paragraphs < MOST_QUESTIONS) {
        struct paragraph *p = &paragraphs[num_paragraphs++];
        p->question = at + (*at == '\n');
        p->question_length = (int)strcspn(p->question, "\n");
        p->answer = p->question + p->question_length + 1;
        at = strstr(p->answer - 1, "\n$");
        p->answer_length = (int)((at ? at + 1 : text + length) - p->answer);
    }
}

/* --- one answer ---------------------------------------------------------------------------- */

/* Splits the words after "$ " in place and returns their number; '...' counts as one word. The
 * words point into `line`. */
static int split(char *line, char **words)
{
    int n = 0;
    for (char *at = line + 1; *at;) {
        at += strspn(at, " ");
        if (!*at)
            break;
        ck_assert_int_lt(n, MOST_WORDS - 1);
        bool is_quoted = *at == '\'';
        words[n++] = at += is_quoted;
        at += strcspn(at, is_quoted ? "'" : " ");
        if (*at)
            *at++ = '\0';
    }
    words[n] = NULL;
    return n;
}

/* Runs a command and returns what it printed; the caller frees it. */
static char *printed(int argc, char **argv)
{
    struct err err = { 0 };
    FILE *file = tmpfile();
    ck_assert(file && dup2(fileno(file), STDOUT_FILENO) >= 0);
    const struct command *command = command_find(argv[0]);
    ck_assert_ptr_nonnull(command);
    int code = command->run(argc, argv, &err);
    if (code != EXIT_DONE)
        printf("exit %d\n", code);
    if (err.code != ERR_NONE)
        printf("%s\n", err.where);
    fflush(stdout);
    long length = (rewind(file), fseek(file, 0, SEEK_END), ftell(file));
    ck_assert_int_ge(length, 0);
    rewind(file);
    char *out = calloc((size_t)length + 1, 1);
    ck_assert_uint_eq(fread(out, 1, (size_t)length, file), (size_t)length);
    fclose(file);
    return out;
}

/* Appends the file, with the rows of each source summed into one line. */
static void add_file(struct text *out, const char *name)
{
    FILE *file = fopen(name, "r");
    ck_assert_ptr_nonnull(file);
    char line[4096], source[64] = "";
    double sum_s = 0, sum_bytes = 0;
    int count = 0;
    for (bool is_left = true; is_left;) {
        char own[64] = "";
        double step_s = 1, bytes = 1;
        is_left = fgets(line, sizeof line, file);
        bool is_row =
            is_left && sscanf(line, "%63[^-,]-%*[^,],%lf,%*[^,],%lf", own, &step_s, &bytes) >= 2;
        if (count > 0 && (!is_row || strcmp(own, source) != 0)) {
            text_add(out, "%s rows=%d log_s=%.10g log_bytes=%.10g\n", source, count, sum_s,
                     sum_bytes);
            sum_s = sum_bytes = count = 0;
        }
        if (!is_row) {
            text_add(out, "%s", is_left ? line : "");
            continue;
        }
        strcpy(source, own);
        sum_s += log(step_s);
        sum_bytes += log(bytes);
        count++;
    }
    fclose(file);
}

/* --- numbers in an answer ------------------------------------------------------------------ */

/* The object "run" has the expected days with failures. It is compared only if the question gives
 * --tokens. */
static bool is_left_out(const char *key)
{
    static const char *const keys[] = { "plan",        "elapsed_s", "version",
                                        "assumptions", "source",    "run" };
    for (size_t i = 0; i < LENGTH(keys); i++)
        if (strcmp(keys[i], key) == 0 && (strcmp(key, "run") != 0 || !asks_for_run))
            return true;
    return false;
}

/* Whether the object is a plan in a list. Of such a plan only the numbers directly in the object
 * are compared, not those of objects inside it. */
static bool is_in_list(const char *where)
{
    return strncmp(where, ".top[", 5) == 0 || strncmp(where, ".pareto[", 8) == 0 ||
           strncmp(where, ".exchanges[", 11) == 0;
}

/* Sentences are not compared, as their words may change. Layouts contain spaces too but are
 * compared. */
static bool is_sentence(const char *key, const char *word)
{
    return strchr(word, ' ') && strcmp(key, "layout") != 0 && strcmp(key, "to") != 0;
}

/* Whether the value is a non-zero number, a word or true; writes it to `word`. */
static bool is_shown(const char *key, const json_t *value, struct text *word)
{
    if (json_is_number(value) && fabs(json_number_value(value)) > 1e-15)
        text_add(word, "%.10g", json_number_value(value));
    else if (json_is_string(value) && !is_sentence(key, json_string_value(value)))
        text_add(word, "'%s'", json_string_value(value));
    else if (json_is_true(value))
        text_add(word, "true");
    else
        return false;
    return true;
}

static void add_word(struct text *out, const char *where, const char *key, json_t *value,
                     size_t *line_start)
{
    struct text word = { 0 };
    if (is_shown(key, value, &word)) {
        if (*line_start == out->length || out->length - *line_start > LINE_COLUMNS) {
            text_add(out, "%s%s:", *line_start == out->length ? "" : "\n", where);
            *line_start = out->length - strlen(where) - 1;
        }
        text_add(out, " %s=%s", key, text_get(&word));
    }
    text_release(&word);
}

/* NOLINTNEXTLINE(misc-no-recursion): the recursion is as deep as the JSON */
static void add_lines(struct text *out, const char *where, json_t *value)
{
    char inner[256];
    const char *key;
    json_t *member;
    size_t i, line_start = out->length;
    if (json_is_array(value)) {
        json_array_foreach (value, i, member) {
            snprintf(inner, sizeof inner, "%zu", i);
            add_word(out, where, inner, member, &line_start);
        }
    } else {
        json_object_foreach (value, key, member)
            if (!is_left_out(key))
                add_word(out, where, key, member, &line_start);
    }
    text_add(out, "%s", out->length > line_start ? "\n" : "");
    json_array_foreach (value, i, member) {
        snprintf(inner, sizeof inner, "%s[%zu]", where, i);
        if (i > 0 && json_is_object(member) && json_equal(member, json_array_get(value, i - 1)))
            text_add(out, "%s: as before\n", inner);
        else if (json_is_object(member) || json_is_array(member))
            add_lines(out, inner, member);
    }
    json_object_foreach (value, key, member) {
        snprintf(inner, sizeof inner, "%s.%s", where, key);
        if (!is_left_out(key) && !is_in_list(where) &&
            (json_is_object(member) || json_is_array(member)))
            add_lines(out, inner, member);
    }
}

static char *answer(const struct paragraph *p)
{
    char *line = strndup(p->question, (size_t)p->question_length), *words[MOST_WORDS];
    asks_for_run = strstr(line, "--tokens") != NULL;
    char name[] = "/tmp/golden-XXXXXX";
    int file = mkstemp(name), n = split(line, words);
    ck_assert_int_ge(file, 0);
    close(file);
    bool writes = false;
    for (int i = 0; i < n; i++)
        if (strcmp(words[i], "OUT") == 0) {
            words[i] = name;
            writes = true;
        }
    char *plain = printed(n, words);
    struct text out = { 0 };
    json_t *json = json_loads(plain, JSON_DISABLE_EOF_CHECK, NULL);
    if (json)
        add_lines(&out, "", json);
    else if (!writes)
        text_add(&out, "%s", plain);
    if (writes)
        add_file(&out, name);
    unlink(name);
    json_decref(json);
    free(plain);
    free(line);
    text_add(&out, "\n");
    return out.at;
}

/* --- expected answers ---------------------------------------------------------------------- */

/* Moves *got and *expected past their next number or character. Returns whether the two were
 * equal. */
static bool step_equal(const char **got, const char **expected)
{
    char *got_end, *expected_end;
    bool is_number = isdigit((unsigned char)**expected) && isdigit((unsigned char)**got);
    double left = is_number ? strtod(*got, &got_end) : 0;
    double right = is_number ? strtod(*expected, &expected_end) : 0;
    if (!is_number)
        return *(*got)++ == *(*expected)++;
    *got = got_end;
    *expected = expected_end;
    return fabs(left - right) <= 1e-9 * fabs(right) + 1e-12;
}

static void check_answer(const struct paragraph *p, const char *got)
{
    const char *expected = p->answer, *end = p->answer + p->answer_length;
    while (*got && expected < end) {
        const char *got_line = got, *expected_line = expected;
        int got_length = (int)strcspn(got, "\n"), length = (int)strcspn(expected, "\n");
        bool equal = true;
        while (equal && got < got_line + got_length && expected < expected_line + length)
            equal = step_equal(&got, &expected);
        equal = equal && got == got_line + got_length && expected == expected_line + length;
        ck_assert_msg(equal, "%.*s\n  expected: %.*s\n  found:    %.*s", p->question_length,
                      p->question, length, expected_line, got_length, got_line);
        got++;
        expected++;
    }
    ck_assert_msg(!*got && expected == end, "%.*s: the answer has more or fewer lines",
                  p->question_length, p->question);
}

/* Replaces the paragraph's answer in the file. */
static void write_answer(const struct paragraph *p, const char *got)
{
    struct text all = { 0 };
    struct err err = { 0 };
    text_add(&all, "%.*s", (int)(p->answer - text), text);
    text_add(&all, "%s%s", got, p->answer + p->answer_length);
    check_ok(file_write(path, all.at, all.length, &err), &err);
    text_release(&all);
}

START_TEST(answers_equal_the_stored_answers)
{
    if (IS_ASAN && is_spared(_i, 1))
        return;
    const char *golden = getenv("SIMSEARCH_GOLDEN");
    const struct paragraph *p = &paragraphs[_i];
    char *got = answer(p);
    if (golden && strcmp(golden, "write") == 0) {
        free(text); /* earlier tests have changed the file since it was read */
        num_paragraphs = 0;
        read_paragraphs();
        write_answer(&paragraphs[_i], got);
    } else {
        check_answer(p, got);
    }
    free(got);
}
END_TEST

START_TEST(the_file_has_many_questions)
{
    ck_assert_int_ge(num_paragraphs, 100);
    ck_assert_int_lt(num_paragraphs, MOST_QUESTIONS);
}
END_TEST

static Suite *suite(void)
{
    read_paragraphs();
    TCase *tc = tcase_create("golden");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, the_file_has_many_questions);
    tcase_add_loop_test(tc, answers_equal_the_stored_answers, 0, num_paragraphs);
    Suite *s = suite_create("golden");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
