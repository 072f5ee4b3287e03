/* Reads and writes which parts of the model each pipeline chunk holds, in Megatron Core's letters,
 * such as "Et*3|(t*4|)*14tmL". */
#include "sim/plan/stage_text.h"

#include "sim/plan/token.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- reading ------------------------------------------------------------------------------- */

static const char letters_known[] = "etml|";

/* Reads a repetition such as "*12" after a letter or a part; 1 if there is none, -1 if the number
 * is missing or too large. */
static int read_times(const char **at)
{
    if (**at != '*')
        return 1;
    ++*at;
    if (!isdigit((unsigned char)**at))
        return -1;
    int times = 0;
    for (; isdigit((unsigned char)**at); ++*at)
        times = times > PLAN_MAX_LIST ? times : 10 * times + (**at - '0');
    return times <= PLAN_MAX_LIST ? times : -1;
}

static bool repeat(const char *part, size_t length, int times, struct text *out, struct err *err)
{
    if (length > 0 && (size_t)times > ((size_t)PLAN_MAX_LIST - out->length) / length)
        return err_set(err, ERR_USAGE, "", "more than %d letters", PLAN_MAX_LIST);
    for (int i = 0; i < times; i++)
        text_add(out, "%.*s", (int)length, part);
    return true;
}

static bool expand(const char *at, const char *end, bool is_part, struct text *out,
                   struct err *err);

/* Expands a part such as "(tt|)*29". Parts cannot be nested. */
static bool expand_part(const char **at, const char *end, bool is_part, struct text *out,
                        struct err *err)
{
    const char *close = memchr(*at, ')', (size_t)(end - *at));
    if (is_part || !close)
        return err_set(err, ERR_USAGE, "", "%s in \"%s\"",
                       is_part ? "parentheses inside parentheses" : "a parenthesis is not closed",
                       *at);
    struct text part = { 0 };
    bool ok = expand(*at + 1, close, true, &part, err);
    const char *behind = close + 1;
    int times = *behind == '*' ? read_times(&behind) : -1;
    if (ok && times < 0)
        ok = err_set(err, ERR_USAGE, "", "expected *N from 0 to %d after the parenthesis of \"%s\"",
                     PLAN_MAX_LIST, *at);
    ok = ok && repeat(text_get(&part), part.length, times, out, err);
    text_release(&part);
    *at = behind;
    return ok;
}

/* Writes out repetitions in lower case: "t*3" becomes "ttt". */
static bool expand(const char *at, const char *end, bool is_part, struct text *out, struct err *err)
{
    while (at < end) {
        if (*at == ',') {
            at++;
            continue;
        }
        if (*at == '(') {
            if (!expand_part(&at, end, is_part, out, err))
                return false;
            continue;
        }
        char letter = (char)tolower((unsigned char)*at);
        if (!strchr(letters_known, letter))
            return err_set(err, ERR_USAGE, "",
                           "expected the letters E, t, m, L and | as in \"Et*3|(tt|)*29mL\", found "
                           "\"%s\"",
                           at);
        const char *star = ++at;
        int times = read_times(&at);
        if (times < 0)
            return err_set(err, ERR_USAGE, "", "expected a number from 0 to %d in \"%s\"",
                           PLAN_MAX_LIST, star);
        if (!repeat(&letter, 1, times, out, err))
            return false;
    }
    return true;
}

static int count_of(const char *letters, char letter)
{
    int count = 0;
    for (; *letters; letters++)
        count += *letters == letter;
    return count;
}

/* Refuses letters in an order that no model has. */
static bool check_order(const char *letters, struct err *err)
{
    size_t length = strlen(letters);
    if (count_of(letters, 'e') != 1 || letters[0] != 'e')
        return err_set(err, ERR_USAGE, "", "expected E once, as the first letter, found %d",
                       count_of(letters, 'e'));
    if (count_of(letters, 'l') != 1 || letters[length - 1] != 'l')
        return err_set(err, ERR_USAGE, "", "expected L once, as the last letter, found %d",
                       count_of(letters, 'l'));
    const char *module = strchr(letters, 'm');
    if (!module)
        return true;
    if (strchr(module, 't'))
        return err_set(err, ERR_USAGE, "", "expected every m after the last t");
    for (const char *last = strrchr(letters, 'm'); module < last; module++)
        if (*module == '|')
            return err_set(err, ERR_USAGE, "", "expected every m in one chunk");
    return true;
}

bool stage_text_read(const char *text, struct arena *arena, struct stage_text *out, struct err *err)
{
    struct text all = { 0 };
    bool ok =
        expand(text, text + strlen(text), false, &all, err) && check_order(text_get(&all), err);
    if (ok) {
        const char *letters = text_get(&all);
        int num_chunks = 1 + count_of(letters, '|');
        int *layers = ARENA_ARRAY(arena, int, (size_t)num_chunks);
        *out = (struct stage_text){ num_chunks, layers, 0, num_chunks - 1 };
        for (int chunk = 0; *letters; letters++) {
            chunk += *letters == '|';
            layers[chunk] += *letters == 't';
            if (*letters == 'm') {
                out->mtp++;
                out->mtp_chunk = chunk;
            }
        }
    }
    text_release(&all);
    return ok;
}

/* --- writing ------------------------------------------------------------------------------- */

static void write_letters(char letter, int count, struct text *out)
{
    enum { LONGEST_PLAIN = 2 }; /* "tt" is shorter than "t*2" */
    if (count > LONGEST_PLAIN)
        text_add(out, "%c*%d", letter, count);
    else
        for (int i = 0; i < count; i++)
            text_add(out, "%c", letter);
}

static bool is_plain(const struct stage_text *stages, int chunk)
{
    return chunk > 0 && chunk < stages->num_chunks - 1 &&
           (stages->mtp == 0 || chunk != stages->mtp_chunk);
}

/* Number of consecutive equal chunks, from this one on, that hold only blocks. */
static int run_length(const struct stage_text *stages, int chunk)
{
    int run = is_plain(stages, chunk) ? 1 : 0;
    while (run > 0 && is_plain(stages, chunk + run) &&
           stages->layers[chunk + run] == stages->layers[chunk])
        run++;
    return run;
}

void stage_text_write(const struct stage_text *stages, struct text *out)
{
    text_add(out, "E");
    for (int chunk = 0; chunk < stages->num_chunks;) {
        int run = run_length(stages, chunk);
        if (run > 1)
            text_add(out, "(");
        write_letters('t', stages->layers[chunk], out);
        if (chunk == stages->mtp_chunk)
            write_letters('m', stages->mtp, out);
        if (chunk < stages->num_chunks - 1)
            text_add(out, "|");
        if (run > 1)
            text_add(out, ")*%d", run);
        chunk += run > 1 ? run : 1;
    }
    text_add(out, "L");
}

/* --- the chunks of a plan ------------------------------------------------------------------ */

struct stage_text stage_text_of(const struct plan *plan, const struct model *model, int mtp,
                                struct arena *arena)
{
    struct stage_text out = { plan_chunks(plan), plan->chunk_layers, mtp, plan_later_chunk(plan) };
    if (!out.layers) {
        int *layers = ARENA_ARRAY(arena, int, (size_t)out.num_chunks);
        for (int chunk = 0; chunk < out.num_chunks; chunk++)
            layers[chunk] = plan_chunk_layers(plan, model, chunk);
        out.layers = layers;
    }
    return out;
}

bool stage_text_check(const struct stage_text *stages, const struct model *model, int pp, int mtp,
                      struct err *err)
{
    struct placement placement = { pp, placement_rounds_of(stages->num_chunks, pp), NULL };
    if (placement_chunks(placement) != stages->num_chunks)
        return err_set(err, ERR_INFEASIBLE, "stages", "%d chunks are not a multiple of pp %d",
                       stages->num_chunks, pp);
    long long layers = 0;
    for (int chunk = 0; chunk < stages->num_chunks; chunk++)
        layers += stages->layers[chunk];
    if (layers != model->layers)
        return err_set(err, ERR_INFEASIBLE, "stages", "the chunks hold %lld of %d layers", layers,
                       model->layers);
    if (stages->mtp != mtp)
        return err_set(err, ERR_INFEASIBLE, "stages",
                       "the layout has %d modules that predict later tokens, but the model has %d",
                       stages->mtp, mtp);
    int round = placement_round(placement, stages->mtp_chunk);
    int last_round = placement.chunks_per_stage - 1;
    return mtp == 0 || round == last_round ||
           err_set(err, ERR_INFEASIBLE, "stages",
                   "modules that predict later tokens are in chunk %d of rank %d; they need the "
                   "rank's last, chunk %d",
                   round, placement_stage(placement, stages->mtp_chunk), last_round);
}
