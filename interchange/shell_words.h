/* interchange/shell_words.h - the words of a shell script; only shell.c includes it. */
#ifndef INTERCHANGE_SHELL_WORDS_H
#define INTERCHANGE_SHELL_WORDS_H

#include "interchange/shell_script.h"

enum { MOST_SHELL_WORDS = 1 << 14, MOST_SHELL_BYTES = 1 << 20, DEEPEST_SHELL = 16 };

struct shell_words {
    const char **at;
    int *lines;
    int count, capacity;
};

struct shell_reader {
    const char *at;
    int line;
    int depth; /* nesting depth of scripts in words: bash -c "..." */
    struct arena *arena;
    struct shell_script *out;
    struct err *err;
};

void shell_add_word(struct shell_words *words, const char *word, int line, struct arena *arena);
char *shell_span(const char *at, size_t length, struct arena *arena); /* copies a span of text */
bool shell_is_name(char c); /* whether c may be in a variable's name */
void shell_skip_blanks(const char **at);

/* Reads one word into `into`, or several where variables split it. It ends at a blank or an
 * operator. */
bool shell_read_word(struct shell_reader *reader, struct shell_words *into);

#endif
