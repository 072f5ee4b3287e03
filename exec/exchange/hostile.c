/* Chooses the data ranks that send false gradients, and makes these gradients. */
#include "exec/exchange/hostile.h"

#include "base/random.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const falsity_words[NUM_FALSITIES + 1] = {
    [FALSITY_FLIP] = "flip",
    [FALSITY_NOISE] = "noise",
    [FALSITY_SILENCE] = "silence",
};

/* Ten times the gradient: strong enough that two of eight ranks reverse the mean, 6 - 2 x 10 <
 * 0. */
static const double usual_strength = 10;

static bool read_strength(const char *word, struct hostility *out, struct err *err)
{
    char *end;
    out->strength = strtod(word, &end);
    if (end != word && *end == '\0' && out->strength > 0 && out->strength <= 1e6)
        return true;
    return err_set(err, ERR_USAGE, "",
                   "expected a strength above 0 and up to 1000000, found \"%s\"", word);
}

static bool read_falsity(const char *word, struct hostility *out, struct err *err)
{
    for (int i = 0; i < NUM_FALSITIES; i++)
        if (strcmp(word, falsity_words[i]) == 0) {
            out->falsity = (enum falsity)i;
            return true;
        }
    const char *nearest = text_nearest(word, falsity_words, NUM_FALSITIES);
    return err_set(err, ERR_USAGE, "", "expected flip, noise or silence, found \"%s\"%s%s%s", word,
                   nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                   nearest ? "\"?" : "");
}

bool hostility_read(const char *text, struct hostility *out, struct err *err)
{
    char words[3][32] = { "", "flip", "" };
    char *end;
    *out = (struct hostility){ .strength = usual_strength };
    int count = sscanf(text, "%31[^:]:%31[^:]:%31[^:]", words[0], words[1], words[2]);
    long hostile = strtol(words[0], &end, 10);
    size_t length = strlen(words[0]) + (count > 1 ? 1 + strlen(words[1]) : 0) +
                    (count > 2 ? 1 + strlen(words[2]) : 0);
    if (count < 1 || length != strlen(text) || end == words[0] || *end != '\0' || hostile < 1 ||
        hostile > 1 << 24)
        return err_set(err, ERR_USAGE, "",
                       "expected N:flip, N:noise or N:silence, with N hostile data ranks; found "
                       "\"%s\"",
                       text);
    out->count = (int)hostile;
    return read_falsity(words[1], out, err) && (count < 3 || read_strength(words[2], out, err));
}

/* The hostile ranks are the first `count` of a random permutation (Fisher and Yates). Each rank
 * draws the same permutation. */
bool hostility_includes(const struct hostility *hostility, uint64_t seed, int num_ranks, int index)
{
    enum { STREAM = 0x405711E };
    struct random rng = random_new(seed, STREAM);
    int place = index; /* position of the rank while the permutation is drawn */
    for (int i = 0; i < hostility->count; i++) {
        int drawn = i + random_below(&rng, num_ranks - i);
        if (drawn == place)
            return true;
        if (place == i)
            place = drawn;
    }
    return false;
}

void hostility_issue(const struct hostility *hostility, const struct kernel_api *api,
                     struct kernels *kernels, struct stream *stream, const struct draw *draw,
                     float *gradients, size_t elements)
{
    struct falsify_args args = { (long)elements, hostility->falsity, (float)hostility->strength,
                                 *draw, gradients };
    api->falsify(kernels, stream, &args);
}
