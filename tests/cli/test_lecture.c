/* Tests docs/lecture.md: the command of each row prints the row's words. */
#include "cli/input/command.h"
#include "tests/testing.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORDS = 24, MOST_TEXT = 400, LEAST_ROWS = 40, CELLS = 4 };

/* A row of the table has a command and the words that it prints; "the same" means the command of
 * the previous row. */
struct row {
    char command[MOST_TEXT], printed[MOST_TEXT];
};

/* Copies the text between the backticks of a cell; "\|" becomes a bar. */
static void copy_code(const char *cell, size_t length, char *out)
{
    const char *at = memchr(cell, '`', length), *end = cell + length;
    size_t count = 0;
    for (at = at ? at + 1 : end; at < end && *at != '`'; at++)
        if (!(*at == '\\' && at[1] == '|') && count < MOST_TEXT - 1)
            out[count++] = *at;
    out[count] = '\0';
}

/* Whether a line is one of the two heading lines of a table. */
static bool is_heading(const char *line)
{
    return strncmp(line, "| formula or system |", 21) == 0 || strncmp(line, "|---|", 5) == 0;
}

/* Splits a line at its bars. Returns false if the line is not a table row whose words can be
 * searched for. */
static bool read_row(const char *line, struct row *row)
{
    const char *cells[CELLS + 1];
    int count = 0;
    for (const char *at = line; *at && count <= CELLS; at++)
        if (*at == '|' && (at == line || at[-1] != '\\'))
            cells[count++] = at + 1;
    if (line[0] != '|' || is_heading(line))
        return false;
    ck_assert_msg(count == CELLS + 1, "expected a row of %d cells: %s", CELLS, line);
    ck_assert_msg(memchr(cells[2], '`', (size_t)(cells[3] - cells[2])),
                  "the row has no words to search for: %s", line);
    char command[MOST_TEXT];
    copy_code(cells[1], (size_t)(cells[2] - cells[1]), command);
    if (*command)
        snprintf(row->command, sizeof row->command, "%s", command);
    copy_code(cells[2], (size_t)(cells[3] - cells[2]), row->printed);
    ck_assert_msg(*row->printed, "the row has no words to search for: %s", line);
    return true;
}

/* Splits a command line into words in place; words may be in double quotes. */
static int split(char *text, char **words)
{
    int count = 0;
    while (*(text += strspn(text, " ")) && count < MOST_WORDS) {
        char end = *text == '"' ? '"' : ' ';
        words[count++] = text += end == '"';
        text += strcspn(text, (char[]){ end, '\0' });
        if (*text)
            *text++ = '\0';
    }
    return count;
}

/* Makes each run of blanks one space. */
static void squeeze(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (!isspace((unsigned char)*from))
            *to++ = *from;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    *to = '\0';
}

/* Runs a command and returns its standard output, which the caller frees. */
static char *printed_by(const char *line)
{
    char text[MOST_TEXT], *words[MOST_WORDS];
    struct err err = { 0 };
    snprintf(text, sizeof text, "%s", line);
    int count = split(text, words);
    ck_assert_str_eq(words[0], "simsearch");
    bool is_named = words[1][0] != '-';
    const struct command *command = command_find(is_named ? words[1] : "search");
    ck_assert_msg(command, "%s", line);
    rewind(stdout);
    ck_assert_int_eq(ftruncate(fileno(stdout), 0), 0);
    int code = command->run(count - is_named, words + is_named, &err);
    ck_assert_msg(code == EXIT_DONE, "%s: exit %d: %s: %s", line, code, err.where, err.msg);
    fflush(stdout);
    long length = ftell(stdout);
    char *out = calloc((size_t)length + 1, 1);
    rewind(stdout);
    ck_assert_uint_eq(fread(out, 1, (size_t)length, stdout), (size_t)length);
    squeeze(out);
    return out;
}

START_TEST(every_row_of_lecture_md_is_printed_by_its_command)
{
    char path[] = "/tmp/test_lecture.XXXXXX", line[2000], command[MOST_TEXT] = "";
    struct row row = { "", "" };
    char *printed = NULL;
    int rows = 0, num_commands_met = 0;
    bool is_run = false;
    FILE *page = fopen("docs/lecture.md", "r");
    ck_assert_msg(page, "docs/lecture.md cannot be read");
    close(mkstemp(path));
    ck_assert_ptr_nonnull(
        freopen(path, "w+",
                stdout)); /* redirects only this test, as Check runs each test in a child process */
    unlink(path);
    while (fgets(line, sizeof line, page)) {
        if (!read_row(line, &row))
            continue;
        rows++;
        if (strcmp(row.command, command) != 0) {
            snprintf(command, sizeof command, "%s", row.command);
            is_run = SPARSE == 1 || !is_spared(num_commands_met, 4);
            num_commands_met++;
            free(printed);
            printed = is_run ? printed_by(command) : NULL;
        }
        ck_assert_msg(!is_run || strstr(printed, row.printed), "%s does not print \"%s\"", command,
                      row.printed);
    }
    ck_assert_int_ge(rows, LEAST_ROWS);
    free(printed);
    fclose(page);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("lecture");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_row_of_lecture_md_is_printed_by_its_command);
    Suite *s = suite_create("docs/lecture.md");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
