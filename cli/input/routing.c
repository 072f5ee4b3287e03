#include "cli/input/routing.h"

#include "base/length.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The words of --routing, with the least allowed value if a word takes one. */
static const struct {
    const char *word;
    enum routing_kind kind;
    double least, most;
} words[] = {
    { "balanced", ROUTING_BALANCED, 0, 0 }, { "random", ROUTING_RANDOM, 0, 0 },
    { "cv=", ROUTING_SKEWED, 0, 10 },       { "factor=", ROUTING_FACTOR, 1, 1e6 },
    { "in-turn", ROUTING_IN_TURN, 0, 0 },
};

static bool read_value(const char *text, size_t i, struct routing *out)
{
    size_t length = strlen(words[i].word);
    char *end = NULL;
    if (words[i].most == 0)
        return strcmp(text, words[i].word) == 0;
    double value = strtod(text + length, &end);
    if (strncmp(text, words[i].word, length) != 0 || end == text + length || *end ||
        !isfinite(value) || value < words[i].least || value > words[i].most)
        return false;
    *(words[i].kind == ROUTING_SKEWED ? &out->cv : &out->factor) = value;
    return true;
}

bool routing_read(const char *text, struct routing *out, struct err *err)
{
    *out = (struct routing){ 0 };
    for (size_t i = 0; i < LENGTH(words); i++)
        if (read_value(text, i, out)) {
            out->kind = (int)words[i].kind;
            return true;
        }
    return err_set(err, ERR_USAGE, "--routing",
                   "expected balanced, random, in-turn, cv=C with C of 0 to 10, or factor=F with F "
                   "of 1 or more; found \"%.60s\"",
                   text);
}
