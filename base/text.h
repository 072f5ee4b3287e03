/* base/text.h - text that grows, and padded columns of tables.
 *
 * `{ 0 }` is empty. Widths are counted in code points, so that columns with UTF-8 characters are
 * aligned. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct arena;

struct text {
    char *at; /* NUL-terminated text; NULL while nothing was added */
    size_t length;
    size_t capacity;
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_padded(struct text *text, const char *word, int width); /* width < 0: right-aligned */
const char *text_get(const struct text *text);                        /* "" when empty */
void text_release(struct text *text);
/* Copies the text to the arena, and releases it. */
char *text_keep(struct text *text, struct arena *arena);
void text_lower(char *text);        /* changes only ASCII letters, in any locale */
int text_columns(const char *utf8); /* number of code points */
bool text_ends_in(const char *text, const char *end);

/* The entry of `names` nearest to `word` by edit distance, for "did you mean"; NULL when none is
 * close (if more than a third of the letters differ). */
const char *text_nearest(const char *word, const char *const *names, size_t n);

#endif
