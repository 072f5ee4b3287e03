/* Functions that read the values of a plan's text. A plan is a list of words such as "tp=8" or
 * "recompute=full"; a token is one of these words. */
#include "base/length.h"
#include "sim/plan/axis.h"
#include "sim/plan/stage_text.h"
#include "sim/schedule/schedule.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Schedules that the grammar accepts but no generator implements; a rule refuses them and names
 * them. */
static const char *const planned_schedules[] = { "v-half" };
enum { NUM_PLANNED_SCHEDULES = LENGTH(planned_schedules) };

static int *member_of(const struct plan_token *token, struct plan *plan)
{
    return (int *)(void *)((char *)plan + token->member);
}

/* Reads digits at *at and moves past them; false when there are none or the number is out of
 * range. */
static bool read_digits(const char **at, int min, int max, int *out)
{
    const char *digit = *at;
    int value = 0;
    for (; isdigit((unsigned char)*digit); digit++)
        value = value > PLAN_MAX_NUMBER ? value : 10 * value + (*digit - '0');
    bool is_number = digit > *at && value >= min && value <= max;
    *at = digit;
    *out = value;
    return is_number;
}

bool token_read_number(const struct plan_token *token, const char *value, struct arena *arena,
                       struct plan *plan, struct err *err)
{
    (void)arena;
    const char *end = value;
    if (read_digits(&end, token->min, token->max, member_of(token, plan)) && *end == '\0')
        return true;
    return err_set(err, ERR_USAGE, "", "expected a whole number from %d to %d, found \"%s\"",
                   token->min, token->max, value);
}

bool token_read_sp(const struct plan_token *token, const char *value, struct arena *arena,
                   struct plan *plan, struct err *err)
{
    (void)token;
    (void)arena;
    plan->sp = strcmp(value, "0") != 0;
    if (!*value || strcmp(value, "0") == 0 || strcmp(value, "1") == 0)
        return true;
    return err_set(err, ERR_USAGE, "", "expected sp, sp1 or sp0, found \"sp%s\"", value);
}

/* Reads a number, or "4x6" for the number 4 repeated six times. False if the text is neither, or
 * the list gets too long. */
static bool read_run(const char **at, int min, int *number, int *times)
{
    *times = 1;
    if (!read_digits(at, min, PLAN_MAX_NUMBER, number))
        return false;
    if (**at != 'x')
        return true;
    ++*at;
    return read_digits(at, 1, PLAN_MAX_LIST, times);
}

/* The length of a list such as "12,14x2", or 0 on error. Writes its numbers unless `out` is
 * NULL. */
static int read_runs(const char *value, int min, int *out)
{
    int count = 0;
    for (const char *at = value;; at++) {
        int number, times;
        if (!read_run(&at, min, &number, &times) || (*at != ',' && *at != '\0') ||
            times > PLAN_MAX_LIST - count)
            return 0;
        for (int i = 0; out && i < times; i++)
            out[count + i] = number;
        count += times;
        if (*at == '\0')
            return count;
    }
}

/* Reads a list such as "12,14,14" or "12,14x2"; each number must be at least `min`. */
static bool read_list(const char *value, int min, struct arena *arena, const int **out, int *count,
                      struct err *err)
{
    *count = read_runs(value, min, NULL);
    if (*count == 0)
        return err_set(
            err, ERR_USAGE, "",
            "expected whole numbers from %d to %d, separated by commas, at most %d in all (4x6 "
            "means 4 six times), found \"%s\"",
            min, PLAN_MAX_NUMBER, PLAN_MAX_LIST, value);
    int *numbers = ARENA_ARRAY(arena, int, (size_t)*count);
    read_runs(value, min, numbers);
    *out = numbers;
    return true;
}

/* Reads letters such as "E|t*4|(t|)*3mL". Modules for later tokens (m) must be in the head's chunk
 * or in the one before it, as no empty chunk may be between them. */
static bool read_stage_letters(const char *value, struct arena *arena, struct plan *plan,
                               struct err *err)
{
    struct stage_text stages;
    if (!stage_text_read(value, arena, &stages, err))
        return false;
    plan->chunk_layers = stages.layers;
    plan->num_chunk_layers = stages.num_chunks;
    plan->stage_modules = stages.mtp;
    plan->mtp_place = stages.mtp > 0 && stages.mtp_chunk < stages.num_chunks - 1;
    return stages.mtp == 0 || stages.mtp_chunk >= stages.num_chunks - 2 ||
           err_set(
               err, ERR_USAGE, "",
               "modules that predict later tokens (m) can be in the chunk of the head (L) or in "
               "the one before it, not in chunk %d of %d",
               stages.mtp_chunk, stages.num_chunks);
}

bool token_read_stages(const struct plan_token *token, const char *value, struct arena *arena,
                       struct plan *plan, struct err *err)
{
    (void)token;
    if (isalpha((unsigned char)value[0]))
        return read_stage_letters(value, arena, plan, err);
    return read_list(value, 0, arena, &plan->chunk_layers, &plan->num_chunk_layers, err);
}

static size_t num_names(const char *const *names)
{
    size_t n = 0;
    while (names[n])
        n++;
    return n;
}

/* Writes an error that names the nearest of `names`, or all of them if none is near. */
static bool refuse_word(const char *word, const char *const *names, struct err *err)
{
    size_t n = num_names(names);
    const char *nearest = text_nearest(word, names, n);
    if (nearest)
        return err_set(err, ERR_USAGE, "", "unknown word \"%s\"; did you mean \"%s\"?", word,
                       nearest);
    char all[160] = "";
    for (size_t i = 0, length = 0; i < n && length < sizeof all; i++)
        length +=
            (size_t)snprintf(all + length, sizeof all - length, "%s%s", i ? ", " : "", names[i]);
    return err_set(err, ERR_USAGE, "", "unknown word \"%s\"; expected one of %s", word, all);
}

static int name_index(const char *word, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return -1;
}

bool token_read_name(const struct plan_token *token, const char *value, struct arena *arena,
                     struct plan *plan, struct err *err)
{
    (void)arena;
    int index = name_index(value, token->names);
    if (index < 0)
        return refuse_word(value, token->names, err);
    *member_of(token, plan) = index;
    return true;
}

bool token_read_schedule(const struct plan_token *token, const char *value, struct arena *arena,
                         struct plan *plan, struct err *err)
{
    (void)token;
    const char **known =
        ARENA_ARRAY(arena, const char *, (size_t)num_generators + NUM_PLANNED_SCHEDULES + 1);
    for (int i = 0; i < num_generators; i++)
        known[i] = generators[i].name;
    for (int i = 0; i < NUM_PLANNED_SCHEDULES; i++)
        known[num_generators + i] = planned_schedules[i];
    if (name_index(value, known) < 0)
        return refuse_word(value, known, err);
    plan_set_schedule(plan, value);
    return true;
}

/* Copies the text up to `separator` or the end, and moves `rest` past it; false after the last
 * word. */
static bool next_word(const char **rest, char separator, char word[32])
{
    if (!*rest)
        return false;
    const char *end = strchr(*rest, separator);
    int length = end ? (int)(end - *rest) : (int)strlen(*rest);
    snprintf(word, 32, "%.*s", length, *rest);
    *rest = end ? end + 1 : NULL;
    return true;
}

/* Reads a set such as "core_attn+mlp" into bits. */
static bool read_parts(const char *value, unsigned *parts, struct err *err)
{
    const char *known[REPLAY_PER_OP + 1] = { 0 };
    char word[32];
    for (int i = 0; i < REPLAY_PER_OP; i++)
        known[i] = replay_names[i];
    *parts = 0;
    while (next_word(&value, '+', word)) {
        int index = name_index(word, known);
        if (index < 0)
            return refuse_word(word, known, err);
        *parts |= 1u << index;
    }
    return true;
}

/* Reads a stage's set, such as "core_attn+mlp" or "none", and the number of stages that have it,
 * such as "*4". */
static bool read_stage_set(char *element, unsigned *parts, int *times, struct err *err)
{
    char *star = strchr(element, '*');
    const char *number = star ? star + 1 : "1";
    if (!read_digits(&number, 1, PLAN_MAX_LIST, times) || *number != '\0')
        return err_set(err, ERR_USAGE, "",
                       "expected a number of stages from 1 to %d after the * in \"%s\"",
                       PLAN_MAX_LIST, element);
    if (star)
        *star = '\0';
    *parts = 0;
    return strcmp(element, "none") == 0 || read_parts(element, parts, err);
}

/* Reads sets of modules, separated by commas. Writes them to `sets` unless it is NULL. */
static bool list_stage_sets(const char *value, struct arena *arena, int *sets, int *count,
                            struct err *err)
{
    char *element = arena_text(arena, value), *rest;
    for (*count = 0; element; element = rest) {
        unsigned parts = 0;
        int times = 0;
        rest = strchr(element, ',');
        if (rest)
            *rest++ = '\0';
        if (!read_stage_set(element, &parts, &times, err))
            return false;
        if (times > PLAN_MAX_LIST - *count)
            return err_set(err, ERR_USAGE, "", "expected sets for %d stages at most",
                           PLAN_MAX_LIST);
        for (int i = 0; i < times && sets; i++)
            sets[*count + i] = (int)parts;
        *count += times;
    }
    return true;
}

/* Reads sets of modules, one for each stage. */
static bool read_stage_sets(const char *value, struct arena *arena, struct plan *plan,
                            struct err *err)
{
    int count;
    if (!list_stage_sets(value, arena, NULL, &count, err))
        return false;
    int *sets = ARENA_ARRAY(arena, int, (size_t)count);
    plan->stage_replays = sets;
    return list_stage_sets(value, arena, sets, &plan->num_stage_replays, err);
}

/* Reads the modules that selective recompute repeats: one set for all stages, or one for each
 * stage. */
static bool read_replays(const char *value, struct arena *arena, struct plan *plan, struct err *err)
{
    plan->recompute = RECOMPUTE_SELECTIVE;
    if (strpbrk(value, ",*"))
        return read_stage_sets(value, arena, plan, err);
    if (!read_parts(value, &plan->replays, err))
        return false;
    plan->replays = plan->replays == REPLAYS_CORE ? 0 : plan->replays;
    return true;
}

/* Reads a share of each chunk's layers, such as "0.25". */
static bool read_share(const char *value, struct plan *plan, struct err *err)
{
    char *end;
    double share = strtod(value, &end);
    plan->recompute = RECOMPUTE_SHARE;
    plan->recompute_share = share;
    return (end > value && *end == '\0' && share >= 0 && share <= 1) ||
           err_set(err, ERR_USAGE, "", "expected a share from 0 to 1, found \"%s\"", value);
}

bool token_read_recompute(const struct plan_token *token, const char *value, struct arena *arena,
                          struct plan *plan, struct err *err)
{
    if (strncmp(value, "block:", 6) == 0) {
        plan->recompute = RECOMPUTE_BLOCK;
        return read_list(value + 6, 0, arena, &plan->recompute_layers, &plan->num_recompute_layers,
                         err);
    }
    if (strncmp(value, "block-share:", 12) == 0)
        return read_share(value + 12, plan, err);
    if (strncmp(value, "full:", 5) == 0) {
        const char *end = value + 5;
        plan->recompute = RECOMPUTE_EVERY;
        if (read_digits(&end, 1, PLAN_MAX_NUMBER, &plan->recompute_every) && *end == '\0')
            return true;
        return err_set(err, ERR_USAGE, "",
                       "expected full:K with a whole number of layers, found \"%s\"", value);
    }
    if (strncmp(value, "selective:", 10) == 0)
        return read_replays(value + 10, arena, plan, err);
    if (strcmp(value, "op-selective") == 0) {
        plan->recompute = RECOMPUTE_SELECTIVE;
        plan->replays = REPLAYS_PER_OP;
        return true;
    }
    if (!token_read_name(token, value, arena, plan, err))
        return false;
    if (plan->recompute <= RECOMPUTE_FULL)
        return true;
    return err_set(err, ERR_USAGE, "", "expected a number instead of the letter in \"%s\"", value);
}

/* Reads a set such as "grad,param" into bits; "none" gives no bits. */
static bool read_set(const char *const *names, const char *value, unsigned *bits, struct err *err)
{
    *bits = 0;
    if (strcmp(value, "none") == 0)
        return true;
    char word[32];
    while (next_word(&value, ',', word)) {
        int index = name_index(word, names);
        if (index < 0)
            return refuse_word(word, names, err);
        if (*bits >> index & 1)
            return err_set(err, ERR_USAGE, "", "\"%s\" is given twice", word);
        *bits |= 1u << index;
    }
    return true;
}

bool token_read_overlap(const struct plan_token *token, const char *value, struct arena *arena,
                        struct plan *plan, struct err *err)
{
    (void)arena;
    plan->overlaps_given = true;
    return read_set(token->names, value, &plan->overlaps, err);
}

bool token_read_offload(const struct plan_token *token, const char *value, struct arena *arena,
                        struct plan *plan, struct err *err)
{
    (void)arena;
    return read_set(token->names, value, &plan->offloads, err);
}

/* Writes the axes with ranks of their own in their default order: "tp, cp, dp and pp". */
static void name_placed(struct text *out)
{
    struct plan usual = plan_default();
    int left = 0;
    for (int i = 0; i < num_axes; i++)
        left += !axes[i]->is_folded;
    for (int i = 0; i < num_axes; i++) {
        const struct axis *axis = axes[usual.order[i]];
        if (!axis->is_folded)
            text_add(out, "%s%s", axis->name, --left == 0 ? "" : left == 1 ? " and " : ", ");
    }
}

static bool refuse_order(const char *value, struct err *err)
{
    struct text names = { 0 };
    name_placed(&names);
    err_set(err, ERR_USAGE, "", "expected %s once each, and ep only right before dp, found \"%s\"",
            text_get(&names), value);
    text_release(&names);
    return false;
}

/* The text may omit ep. It divides dp's ranks, so it is placed right before dp. */
bool token_read_order(const struct plan_token *token, const char *value, struct arena *arena,
                      struct plan *plan, struct err *err)
{
    (void)token;
    (void)arena;
    const char *names[MAX_AXES + 1] = { 0 };
    char word[32];
    unsigned seen = 0;
    int count = 0;
    int previous = -1;
    for (int i = 0; i < num_axes; i++)
        names[i] = axes[i]->name;
    for (const char *rest = value; next_word(&rest, '-', word);) {
        int axis = name_index(word, names);
        if (axis < 0)
            return refuse_word(word, names, err);
        if (seen >> axis & 1)
            return err_set(err, ERR_USAGE, "", "\"%s\" is given twice", word);
        if (previous == AXIS_EXPERT && axis != AXIS_DATA)
            break;
        if (axis == AXIS_DATA)
            plan->order[count++] = AXIS_EXPERT;
        if (axis != AXIS_EXPERT)
            plan->order[count++] = axis;
        seen |= 1u << axis;
        previous = axis;
    }
    return (count == num_axes && previous != AXIS_EXPERT) || refuse_order(value, err);
}

bool token_read_exchange(const struct plan_token *token, const char *value, struct arena *arena,
                         struct plan *plan, struct err *err)
{
    (void)token;
    (void)arena;
    return exchange_read(value, &plan->exchange, err);
}

/* Reads a factor such as "1.25" and stores it in hundredths, as an integer. */
bool token_read_capacity(const struct plan_token *token, const char *value, struct arena *arena,
                         struct plan *plan, struct err *err)
{
    (void)token;
    (void)arena;
    char *end = NULL;
    double factor = isdigit((unsigned char)*value) ? strtod(value, &end) : 0;
    double hundredths = round(factor * 100);
    bool is_whole = fabs(factor * 100 - hundredths) < 1e-6;
    if (end && factor > 0 && *end == '\0' && is_whole && hundredths >= 1 && hundredths <= 100000) {
        plan->capacity = (int)hundredths;
        return true;
    }
    return err_set(err, ERR_USAGE, "",
                   "expected 0.01 to 1000 with at most two decimals, like 1.25; found \"%s\"",
                   value);
}
