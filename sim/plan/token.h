/* sim/plan/token.h - one word of the layout grammar.
 *
 * Each row of the table reads, writes and documents one word. Parsing, printing, --help and the
 * reference page go through the rows in canonical order (tokens.h). A word is a name followed by a
 * value, such as "tp8", "tp=8" or "schedule=gpipe". */
#ifndef SIM_PLAN_TOKEN_H
#define SIM_PLAN_TOKEN_H

#include "sim/plan/plan.h"

#include <stddef.h>

enum { PLAN_MAX_NUMBER = 1 << 24, PLAN_MAX_LIST = 1 << 20 };

struct plan_token;
/* `value` is the text after the name and '='. The function leaves the error's `where` empty. */
typedef bool plan_token_read(const struct plan_token *token, const char *value, struct arena *arena,
                             struct plan *plan, struct err *err);
/* Adds the word, or nothing when the plan has the default. */
typedef void plan_token_write(const struct plan_token *token, const struct plan *plan,
                              struct text *out);

struct plan_token {
    const char *name; /* such as "tp" */
    const char *form; /* such as "tpN"; if the form contains '=', the word must contain it too */
    const char *doc;  /* one sentence */
    plan_token_read *read;
    plan_token_write *write;
    size_t member; /* numbers and names: offset of their int in struct plan */
    int min, max;  /* numbers */
    /* numbers and names: the default, which plan_write omits. If it is below min, plan_write omits
     * no value. */
    int fallback;
    const char *const *names; /* for names and sets of names */
};

/* Macros for parts of rows. */
#define TOKEN_MEMBER(name) .member = offsetof(struct plan, name)
#define TOKEN_NUMBER       .read = token_read_number, .write = token_write_number, .max = PLAN_MAX_NUMBER
#define TOKEN_NAME         .read = token_read_name, .write = token_write_name

/* Readers and writers that the table refers to. */
plan_token_read token_read_number, token_read_sp, token_read_name, token_read_schedule,
    token_read_stages, token_read_recompute;
plan_token_read token_read_overlap, token_read_order, token_read_offload, token_read_exchange,
    token_read_capacity;
plan_token_write token_write_number, token_write_sp, token_write_name, token_write_shard,
    token_write_grad, token_write_reduce, token_write_schedule;
plan_token_write token_write_stages, token_write_recompute, token_write_overlap, token_write_order,
    token_write_offload, token_write_exchange, token_write_capacity;

#endif
