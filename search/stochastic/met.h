/* search/stochastic/met.h - the candidates that a run has met, i.e. scored or rejected. */
#ifndef SEARCH_STOCHASTIC_MET_H
#define SEARCH_STOCHASTIC_MET_H

#include <stddef.h>
#include <stdint.h>

struct met {
    uint64_t key; /* the candidate's encoding_key */
    int rule;     /* number of the first broken rule; -1: none */
    /* 0 if the plan breaks a rule. If it exceeds memory, step_s is a lower bound. */
    double step_s, peak_memory_bytes;
};

/* A hash table; `{ 0 }` is empty. */
struct met_table {
    struct met *slots;
    unsigned char *is_taken;
    size_t num_slots; /* 0 or a power of two */
    size_t count;
};

/* NULL: the key is not in the table. Valid until the next met_add. */
const struct met *met_find(const struct met_table *table, uint64_t key);
/* Does nothing when the key is already there. */
void met_add(struct met_table *table, const struct met *met);
void met_release(struct met_table *table);

#endif
