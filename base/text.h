/* base/text.h - text that grows, and tables whose columns line up.
 *
 * `{ 0 }` is empty. Columns count code points, so that UTF-8 bars and middots line up. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct arena;

struct text {
    char *at; /* NUL-terminated once anything was added; NULL while empty */
    size_t length;
    size_t capacity;
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_padded(struct text *text, const char *word, int width); /* width < 0: right-aligned */
const char *text_get(const struct text *text);                        /* "" when empty */
void text_release(struct text *text);
/* Copies the text to the arena, and releases it. */
char *text_keep(struct text *text, struct arena *arena);
void text_lower(char *text);        /* of ASCII letters, in any locale */
int text_columns(const char *utf8); /* code points */
bool text_ends_in(const char *text, const char *end);

/* The entry of `names` nearest to `word` by edit distance, or NULL when none is close (more than a
 * third of the letters differ). For "did you mean". */
const char *text_nearest(const char *word, const char *const *names, size_t n);

#endif
