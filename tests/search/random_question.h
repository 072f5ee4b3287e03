/* tests/search/random_question.h - random models, systems and plans, for tests of general
 * properties.
 *
 * Systems are shipped clusters and stacks with randomly changed speeds, latencies and memory.
 * Models have any shape of the presets' families, small enough that a search takes milliseconds.
 * Plans use any words of a layout ("tp2 pp4 sp ..."). A seed gives the same question on every
 * machine. */
#ifndef TESTS_SEARCH_RANDOM_QUESTION_H
#define TESTS_SEARCH_RANDOM_QUESTION_H

#include "base/random.h"
#include "search/search.h"

struct question {
    uint64_t seed;
    struct random rng; /* the random generator, for further draws */
    struct system system;
    struct model model;
    struct arena arena; /* memory of plans and words */
    const char *words;  /* cluster, stack, GPUs and model, for messages */
};

void question_draw(uint64_t seed, struct question *out);
void question_release(struct question *question);

/* Draws a plan that breaks no rule of plans. Returns false if 60 attempts found none. */
bool question_plan(struct question *question, struct plan *out);
/* Draws a question about any cluster, stack and kind of model, and a plan for it. */
void question_draw_wide(uint64_t seed, struct question *out);
bool question_plan_wide(struct question *question, struct plan *out);
/* Writes the plan's layout into the question's arena. */
const char *question_layout(struct question *question, const struct plan *plan);

/* Draws a search with a small space; it may fix or forbid words. */
struct search_request question_request(struct question *question);

#endif
