/* Functions that write the words of a plan's text. */
#include "sim/plan/axis.h"
#include "sim/plan/ranks.h"
#include "sim/plan/tokens.h"

#include <string.h>

static int value_of(const struct plan_token *token, const struct plan *plan)
{
    int value;
    memcpy(&value, (const char *)plan + token->member, sizeof value);
    return value;
}

static void begin(const struct plan_token *token, struct text *out)
{
    text_add(out, "%s%s", token == plan_token_at(0) ? "" : " ", token->name);
}

void token_write_number(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    int value = value_of(token, plan);
    if (value == token->fallback)
        return;
    begin(token, out);
    text_add(out, "%d", value);
}

void token_write_sp(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    if (plan->sp)
        begin(token, out);
}

static void write_word(const struct plan_token *token, const char *word, struct text *out)
{
    begin(token, out);
    text_add(out, "=%s", word);
}

void token_write_name(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    int value = value_of(token, plan);
    if (value != token->fallback)
        write_word(token, token->names[value], out);
}

/* Writes shard=N. It is omitted if N is the number of all data ranks, which is the default; if dp
 * is not derived yet, this is unknown and N is written. */
void token_write_shard(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    if (plan->shard == 0 || (plan->dp > 0 && plan->shard == plan_replicas(plan)))
        return;
    begin(token, out);
    text_add(out, "=%d", plan->shard);
}

void token_write_grad(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    if (plan->gradient_dtype != (int)plan_default_gradient_dtype(plan->precision))
        write_word(token, token->names[plan->gradient_dtype], out);
}

void token_write_reduce(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    if (plan->reduce_dtype != plan->gradient_dtype)
        write_word(token, token->names[plan->reduce_dtype], out);
}

void token_write_schedule(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    struct plan implied = { .vpp = plan->vpp };
    if (strcmp(plan_schedule(plan), plan_schedule(&implied)) != 0)
        write_word(token, plan->schedule, out);
}

static bool are_equal(const int *numbers, int count)
{
    for (int i = 1; i < count; i++)
        if (numbers[i] != numbers[0])
            return false;
    return true;
}

static void write_list(const int *numbers, int count, struct text *out)
{
    enum { SHORTEST_RUN = 3 }; /* from this many equal numbers on, the form "4x6" is used */
    for (int i = 0; i < count;) {
        int run = 1;
        while (i + run < count && numbers[i + run] == numbers[i])
            run++;
        if (run < SHORTEST_RUN)
            run = 1;
        text_add(out, "%s%d", i ? "," : "", numbers[i]);
        if (run > 1)
            text_add(out, "x%d", run);
        i += run;
    }
}

/* Even chunks are not written, unless their number differs from pp x vpp. */
void token_write_stages(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    int count = plan->num_chunk_layers;
    if (!plan->chunk_layers || (count == plan_chunks(plan) && are_equal(plan->chunk_layers, count)))
        return;
    write_word(token, "", out);
    write_list(plan->chunk_layers, count, out);
}

void plan_write_replays(unsigned replays, struct text *out)
{
    const char *separator = ":";
    if (replays == REPLAYS_PER_OP) {
        text_add(out, "op-selective");
        return;
    }
    text_add(out, "selective");
    for (int i = 0; i < REPLAY_PER_OP && replays != REPLAYS_CORE; i++)
        if (replays >> i & 1) {
            text_add(out, "%s%s", separator, replay_names[i]);
            separator = "+";
        }
}

/* Writes a set of modules as an element of a list. */
static void write_parts(unsigned replays, struct text *out)
{
    const char *separator = "";
    if (replays == 0)
        text_add(out, "none");
    for (int i = 0; i < REPLAY_PER_OP; i++)
        if (replays >> i & 1) {
            text_add(out, "%s%s", separator, replay_names[i]);
            separator = "+";
        }
}

/* Number of sets from `first` on that are equal, one after the other. */
static int run_of_sets(const struct plan *plan, int first)
{
    int run = 1;
    while (first + run < plan->num_stage_replays &&
           plan->stage_replays[first + run] == plan->stage_replays[first])
        run++;
    return run;
}

/* Whether the plan has a list of sets that are not all equal, or too few of them. */
static bool lists_sets(const struct plan *plan)
{
    int count = plan->stage_replays ? plan->num_stage_replays : 0;
    return count > 0 && (run_of_sets(plan, 0) < count || (count > 1 && count != plan->pp));
}

void plan_write_selective(const struct plan *plan, struct text *out)
{
    if (!lists_sets(plan)) {
        struct plan alike = plan_of_stage(plan, 0);
        if (alike.recompute == RECOMPUTE_NONE)
            text_add(out, "none");
        else
            plan_write_replays(plan_replays(&alike), out);
        return;
    }
    for (int i = 0, run; i < plan->num_stage_replays; i += run) {
        text_add(out, "%s", i ? "," : "selective:");
        write_parts((unsigned)plan->stage_replays[i], out);
        run = run_of_sets(plan, i);
        if (run > 1)
            text_add(out, "*%d", run);
    }
}

void token_write_recompute(const struct plan_token *token, const struct plan *plan,
                           struct text *out)
{
    switch ((enum recompute)plan->recompute) {
    case RECOMPUTE_NONE:
        return;
    case RECOMPUTE_SELECTIVE:
        if (plan->stage_replays && !lists_sets(plan) && plan->stage_replays[0] == 0)
            return;
        write_word(token, "", out);
        plan_write_selective(plan, out);
        return;
    case RECOMPUTE_FULL:
        write_word(token, "full", out);
        return;
    case RECOMPUTE_EVERY:
        write_word(token, "full", out);
        if (plan->recompute_every != 1)
            text_add(out, ":%d", plan->recompute_every);
        return;
    case RECOMPUTE_BLOCK: {
        int count = plan->num_recompute_layers;
        bool one = count == plan_chunks(plan) && are_equal(plan->recompute_layers, count);
        write_word(token, "block:", out);
        write_list(plan->recompute_layers, one ? 1 : count, out);
        return;
    }
    case RECOMPUTE_SHARE:
        write_word(token, "block-share:", out);
        text_add(out, "%.15g", plan->recompute_share);
        return;
    }
}

static void write_set(const struct plan_token *token, unsigned bits, struct text *out)
{
    write_word(token, bits ? "" : "none", out);
    bool is_first = true;
    for (int i = 0; token->names[i]; i++) {
        if (!(bits >> i & 1))
            continue;
        text_add(out, "%s%s", is_first ? "" : ",", token->names[i]);
        is_first = false;
    }
}

void token_write_overlap(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    if (plan->overlaps_given)
        write_set(token, plan->overlaps, out);
}

void token_write_offload(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    if (plan->offloads)
        write_set(token, plan->offloads, out);
}

void token_write_order(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    struct plan megatron = plan_default();
    if (memcmp(plan->order, megatron.order, sizeof plan->order) == 0)
        return;
    write_word(token, "", out);
    bool is_first = true;
    for (int i = 0; i < num_axes; i++) {
        const struct axis *axis = axes[plan->order[i]];
        if (axis->is_folded)
            continue;
        text_add(out, "%s%s", is_first ? "" : "-", axis->name);
        is_first = false;
    }
}

void token_write_exchange(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    if (exchange_is_default(&plan->exchange))
        return;
    write_word(token, "", out);
    exchange_write(&plan->exchange, out);
}

void token_write_capacity(const struct plan_token *token, const struct plan *plan, struct text *out)
{
    if (plan->capacity == 0)
        return;
    write_word(token, "", out);
    text_add(out, "%g", plan->capacity / 100.0);
}
