/* A hash table of the candidate plans that a search has scored or rejected. */
#include "search/stochastic/met.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

enum { FEWEST_SLOTS = 64 };

/* The slot of a key. The table uses linear probing and is at most half full. */
static size_t slot_of(const struct met_table *table, uint64_t key)
{
    size_t mask = table->num_slots - 1;
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(hash >> 32) & mask;
    while (table->is_taken[slot] && table->slots[slot].key != key)
        slot = (slot + 1) & mask;
    return slot;
}

static void resize(struct met_table *table, size_t num_slots)
{
    struct met_table old = *table;
    table->num_slots = num_slots;
    table->slots = arena_grow(NULL, num_slots * sizeof *table->slots);
    table->is_taken = arena_grow(NULL, num_slots);
    memset(table->is_taken, 0, num_slots);
    table->count = 0;
    for (size_t i = 0; i < old.num_slots; i++)
        if (old.is_taken[i])
            met_add(table, &old.slots[i]);
    met_release(&old);
}

const struct met *met_find(const struct met_table *table, uint64_t key)
{
    if (table->num_slots == 0)
        return NULL;
    size_t slot = slot_of(table, key);
    return table->is_taken[slot] ? &table->slots[slot] : NULL;
}

void met_add(struct met_table *table, const struct met *met)
{
    if (2 * (table->count + 1) > table->num_slots)
        resize(table, table->num_slots ? 2 * table->num_slots : FEWEST_SLOTS);
    size_t slot = slot_of(table, met->key);
    if (table->is_taken[slot])
        return;
    table->slots[slot] = *met;
    table->is_taken[slot] = 1;
    table->count++;
}

void met_release(struct met_table *table)
{
    free(table->slots);
    free(table->is_taken);
    *table = (struct met_table){ 0 };
}
