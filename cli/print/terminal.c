#include "cli/print/terminal.h"

#include "base/json.h"

#include <errno.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool printed_json;

void print_json(const json_t *json)
{
    char *text = json_text(json, 2);
    printf("%s\n", text);
    free(text);
    printed_json = true;
}

bool json_was_printed(void)
{
    return printed_json;
}

/* If the stream failed earlier, errno is lost, so a newline is written to repeat the failure. */
bool flush_stdout(void)
{
    errno = 0;
    bool failed = ferror(stdout) != 0;
    clearerr(stdout);
    if (fflush(stdout) == 0 && failed) {
        putchar('\n');
        fflush(stdout);
    }
    if (!failed && !ferror(stdout))
        return true;
    errno = errno ? errno : EIO;
    return false;
}

struct terminal terminal_of_stdout(void)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    bool is_dumb = !term || strcmp(term, "dumb") == 0;
    return (struct terminal){
        .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
        .colour = isatty(STDOUT_FILENO) && !is_dumb && !(no_color && *no_color),
    };
}

int terminal_columns(void)
{
    enum { MOST_COLUMNS = 10000 };
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    long asked = columns ? strtol(columns, NULL, 10) : 0;
    return asked > 0 && asked <= MOST_COLUMNS ? (int)asked : 0;
}

const char *terminal_dot(const struct terminal *terminal)
{
    return terminal->utf8 ? " · " : " - ";
}

const char *terminal_minus(const struct terminal *terminal)
{
    return terminal->utf8 ? "−" : "-";
}

const char *terminal_times(const struct terminal *terminal)
{
    return terminal->utf8 ? "×" : "x";
}

const char *terminal_bold(const struct terminal *terminal)
{
    return terminal->colour ? "\033[1m" : "";
}

const char *terminal_dim(const struct terminal *terminal)
{
    return terminal->colour ? "\033[2m" : "";
}

const char *terminal_plain(const struct terminal *terminal)
{
    return terminal->colour ? "\033[0m" : "";
}

void terminal_print_words(const char *text, int column, int indent, int most)
{
    bool is_first = true;
    for (text += strspn(text, " \n"); *text; text += strspn(text, " \n")) {
        int length = (int)strcspn(text, " \n");
        if (!is_first && column + 1 + length > most) {
            printf("\n%*s", indent, "");
            column = indent;
            is_first = true;
        }
        printf("%s%.*s", is_first ? "" : " ", length, text);
        column += length + !is_first;
        is_first = false;
        text += length;
    }
    printf("\n");
}

void terminal_add_bar(const struct terminal *terminal, double share, int width, struct text *out)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    int steps = (int)(share * width * 8 + 0.5);
    for (int i = 0; i < steps / 8; i++)
        text_add(out, "%s", terminal->utf8 ? "█" : "#");
    if (terminal->utf8)
        text_add(out, "%s", eighths[steps % 8]);
    else if (steps % 8 >= 4)
        text_add(out, "#");
}
