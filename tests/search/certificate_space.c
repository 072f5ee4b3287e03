#include "tests/search/certificate_space.h"

#include "sim/cost/piece.h"

#include <string.h>

enum { MOST_VALUES = 4096 };

bool space_fixes(const struct named_space *c, const char *word)
{
    const char *fixed = json_string_value(json_object_get(c->lists, "fixed"));
    size_t length = strlen(word);
    for (const char *at = fixed; (at = strstr(at, word)); at += length)
        if ((at == fixed || at[-1] == ' ') && strchr("0123456789= ", at[length]))
            return true; /* strchr also finds the terminating 0 */
    return false;
}

static bool is_list(const struct named_space *c, const char *name, const int *expected, int count)
{
    const json_t *list = json_object_get(c->lists, name);
    bool fixed = space_fixes(c, name), ok = json_array_size(list) == (size_t)(fixed ? 1 : count);
    for (int i = 0; ok && !fixed && i < count; i++)
        ok = number_at(list, (size_t)i) == expected[i];
    return ok || err_set(c->err, ERR_INPUT, name, "the list is not that of the space");
}

int space_recompute(const struct named_space *c, size_t i)
{
    const char *word = json_string_value(json_array_get(json_object_get(c->lists, "recompute"), i));
    if (word && strcmp(word, "op-selective") == 0)
        return RECOMPUTE_SELECTIVE;
    for (int k = 0; word && recompute_names[k]; k++)
        if (strcmp(recompute_names[k], word) == 0)
            return k;
    return -1;
}

static int divisors(int n, int most, int out[MOST_VALUES])
{
    int count = 0;
    for (int d = 1; d <= n && d <= most && count < MOST_VALUES; d++)
        if (n % d == 0)
            out[count++] = d;
    return count;
}

static bool has_usual_lists(const struct named_space *c)
{
    static const int zeros[] = { 0, 1, 2, 3 }, flags[] = { 0, 1 }, etps[] = { 1, 0 };
    static const int microbatches[] = { 1, 2, 4, 8, 16 };
    int list[MOST_VALUES] = { 1 }, gpus = c->system->num_gpus, experts = c->model->experts, cps = 0;
    bool ok = is_list(c, "tp", list, divisors(gpus, 64, list)) &&
              is_list(c, "pp", list, divisors(gpus, gpus, list)) &&
              is_list(c, "ep", list, experts > 0 ? divisors(experts, gpus, list) : 1) &&
              is_list(c, "etp", etps, experts > 0 ? 2 : 1) && is_list(c, "sp", flags, 2) &&
              is_list(c, "mb", microbatches, 5) && is_list(c, "zero", zeros, 4);
    for (int cp = 1; cp <= 8; cp *= 2)
        if (gpus % cp == 0)
            list[cps++] = cp;
    bool splits_attention = plan_attention_kernel(c->base, c->system) != ATTENTION_UNFUSED;
    if (!splits_attention)
        list[0] = c->base->cp;
    bool one = space_fixes(c, "recompute");
    size_t count = json_array_size(json_object_get(c->lists, "recompute"));
    for (size_t i = 0; ok && i < count; i++)
        ok = (one ? space_recompute(c, i) >= 0 : space_recompute(c, i) == (int)i) ||
             err_set(c->err, ERR_INPUT, "recompute", "the list is not that of the space");
    if (ok && count != (one ? 1 : 3))
        return err_set(c->err, ERR_INPUT, "recompute", "the list is not that of the space");
    return ok && is_list(c, "cp", list, splits_attention ? cps : 1);
}

/* Whether the space has this split, given as `most` layers per chunk, minus `first` in the first
 * and `last` in the last chunk. */
static bool has_split(const struct named_space *c, int pp, int vpp, int first, int last)
{
    size_t i;
    json_t *split;
    int chunks = pp * vpp, layers = c->model->layers, most = (layers + first + last) / chunks;
    if ((layers + first + last) % chunks != 0)
        return true; /* such a split does not exist */
    json_array_foreach (json_object_get(c->lists, "splits"), i, split) {
        const json_t *stages = json_object_get(split, "stages");
        bool is_it = (int)json_integer_value(json_object_get(split, "pp")) == pp &&
                     (int)json_integer_value(json_object_get(split, "vpp")) == vpp;
        for (int k = 0; is_it && k < chunks; k++)
            is_it = (stages ? number_at(stages, (size_t)k) : layers / chunks) ==
                    most - (k == 0 ? first : 0) - (k == chunks - 1 ? last : 0);
        if (is_it)
            return true;
    }
    return false;
}

/* Whether the space has the even splits, and those that count the embedding, the loss or both as a
 * layer. */
static bool has_usual_splits(const struct named_space *c)
{
    bool only_even = json_is_true(json_object_get(c->lists, "even"));
    const json_t *pps = json_object_get(c->lists, "pp");
    for (size_t i = 0; i < json_array_size(pps) && !space_fixes(c, "stages"); i++) {
        int pp = number_at(pps, i), layers = c->model->layers;
        for (int vpp = 1; pp * vpp <= layers + 2 && (pp > 1 || vpp == 1); vpp++) {
            bool one = (layers + 1) % (pp * vpp) == 0, is_plain = only_even || pp == 1;
            if (space_fixes(c, "vpp") && vpp != c->base->vpp)
                continue;
            if (!has_split(c, pp, vpp, 0, 0) ||
                (!is_plain && (!has_split(c, pp, vpp, 1, 0) || !has_split(c, pp, vpp, 0, 1) ||
                               (!one && !has_split(c, pp, vpp, 1, 1)))))
                return err_set(c->err, ERR_INPUT, "splits", "a split of the space is missing");
        }
    }
    return true;
}

bool space_has_usual_lists(const struct named_space *c)
{
    return has_usual_lists(c) && has_usual_splits(c);
}
