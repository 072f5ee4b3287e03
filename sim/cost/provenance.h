/* sim/cost/provenance.h - where a profile's constants come from, by group, in the same words
 * everywhere:
 *
 *   fitted here     on runs or benchmarks of this GPU
 *   sibling of X    taken from another GPU with the same or a similar chip
 *   datasheet       datasheets and publications; nothing was fitted */
#ifndef SIM_COST_PROVENANCE_H
#define SIM_COST_PROVENANCE_H

#include "base/err.h"
#include "base/field.h"

#include <jansson.h>

struct text;

struct provenance {
    char products[64], attention[64], memory[64], network[64];
};

extern const char fitted_here[], from_datasheet[]; /* the two words without a GPU's name */
extern const struct field provenance_fields[];
extern const size_t num_provenance_fields;

/* Reads a profile's "provenance". Groups that are left out, or all when it is NULL, count as fitted
 * when the profile is measured, else as from datasheets. Fails with ERR_INPUT and err->where = the
 * key. */
bool provenance_read(const json_t *object, bool is_measured, struct provenance *out,
                     struct err *err);

/* Whether a group's word is "sibling of X". */
bool provenance_is_siblings(const char *word);

/* Adds text like "products, memory fitted here; attention, network datasheet", or only the word
 * when all groups have the same. */
void provenance_words(const struct provenance *provenance, struct text *out);

#endif
