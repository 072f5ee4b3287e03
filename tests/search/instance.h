/* tests/search/instance.h - models and systems that are small enough to evaluate every plan. */
#ifndef TESTS_SEARCH_INSTANCE_H
#define TESTS_SEARCH_INSTANCE_H

#include "search/search.h"

#include <stdint.h>

struct instance {
    struct system system;
    struct model model;
};

/* GPT-3 1.3B on 16 H100 with Megatron-Core; fails the test when it can't be loaded. */
void instance_load(struct instance *instance);
void instance_load_with(struct instance *instance, const char *cluster, const char *stack);
void instance_release(struct instance *instance);

/* Draws shapes, batch, GPUs, memory (little enough to matter) and bandwidths at random. */
void instance_randomize(struct instance *instance, uint64_t seed);

/* A request for the 20 best plans with two workers and otherwise default values. */
struct search_request instance_request(const struct instance *instance);

#endif
