#include "base/text.h"

#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void make_room(struct text *text, size_t more)
{
    size_t needed = text->length + more + 1;
    if (needed <= text->capacity)
        return;
    size_t doubled = 2 * text->capacity;
    text->capacity = needed > doubled ? needed : doubled;
    text->at = arena_grow(text->at, text->capacity);
}

void text_add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length >= 0) {
        make_room(text, (size_t)length);
        vsnprintf(text->at + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

/* Pads by code points; printf's "%*s" counts bytes, which is too little for text beyond ASCII. */
void text_add_padded(struct text *text, const char *word, int width)
{
    int columns = text_columns(word);
    int blanks = (width < 0 ? -width : width) - columns;
    if (blanks < 0)
        blanks = 0;
    if (width < 0)
        text_add(text, "%*s%s", blanks, "", word);
    else
        text_add(text, "%s%*s", word, blanks, "");
}

const char *text_get(const struct text *text)
{
    return text->at ? text->at : "";
}

void text_release(struct text *text)
{
    free(text->at);
    *text = (struct text){ 0 };
}

char *text_keep(struct text *text, struct arena *arena)
{
    char *kept = arena_text(arena, text_get(text));
    text_release(text);
    return kept;
}

void text_lower(char *text)
{
    for (; *text; text++)
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text - 'A' + 'a');
}

bool text_ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

int text_columns(const char *utf8)
{
    int columns = 0;
    for (; *utf8; utf8++)
        columns += ((unsigned char)*utf8 & 0xc0) != 0x80;
    return columns;
}

enum { LONGEST_WORD = 64 };

static int least(int a, int b, int c)
{
    int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Levenshtein distance, computed row by row. Both words are at most LONGEST_WORD. */
static int edit_distance(const char *a, const char *b)
{
    int row[LONGEST_WORD + 1];
    int width = (int)strlen(b);
    for (int j = 0; j <= width; j++)
        row[j] = j;
    for (int i = 1; *a; i++, a++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= width; j++) {
            int replaced = diagonal + (*a != b[j - 1]);
            diagonal = row[j];
            row[j] = least(replaced, row[j] + 1, row[j - 1] + 1);
        }
    }
    return row[width];
}

const char *text_nearest(const char *word, const char *const *names, size_t n)
{
    const char *nearest = NULL;
    int smallest = LONGEST_WORD;
    for (size_t i = 0; i < n; i++) {
        size_t letters = strlen(names[i]) > strlen(word) ? strlen(names[i]) : strlen(word);
        if (letters > LONGEST_WORD)
            continue;
        int distance = edit_distance(word, names[i]);
        if (distance < smallest && 3 * distance <= (int)letters) {
            smallest = distance;
            nearest = names[i];
        }
    }
    return nearest;
}
