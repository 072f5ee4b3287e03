/* tests/search/random_question.h - a model, a system and plans drawn at random: what laws must hold
 * of.
 *
 * Shipped clusters and stacks with their speeds, latencies and memory bent; models of any shape
 * that the presets' families have, small enough that a search takes milliseconds; plans of any
 * words of a layout. A seed gives the same question on every machine. */
#ifndef TESTS_SEARCH_RANDOM_QUESTION_H
#define TESTS_SEARCH_RANDOM_QUESTION_H

#include "base/random.h"
#include "search/search.h"

struct question {
    uint64_t seed;
    struct random rng; /* for whatever else is drawn */
    struct system system;
    struct model model;
    struct arena arena; /* of plans and words */
    const char *words;  /* cluster, stack, GPUs and model, for messages */
};

void question_draw(uint64_t seed, struct question *out);
void question_release(struct question *question);

/* A plan that keeps the rules. False where 60 attempts found none. */
bool question_plan(struct question *question, struct plan *out);
/* Its layout, in the question's arena. */
const char *question_layout(struct question *question, const struct plan *plan);

/* A search over it for few plans, that fixes or forbids something or does not. */
struct search_request question_request(struct question *question);

#endif
