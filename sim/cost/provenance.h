/* sim/cost/provenance.h - where a profile's constants come from, by group of constants. All files
 * use the same words:
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

extern const char fitted_here[], from_datasheet[]; /* the first and the third word */
extern const struct field provenance_fields[];
extern const size_t num_provenance_fields;

/* Reads a profile's "provenance". Groups that the object does not have are "fitted here" if
 * `is_measured`, else "datasheet"; so are all groups if it is NULL. A failure is ERR_INPUT with the
 * key in err->where. */
bool provenance_read(const json_t *object, bool is_measured, struct provenance *out,
                     struct err *err);

/* Adds text like "products, memory: fitted here; attention, network: datasheet", or only the word
 * if all groups have the same. */
void provenance_words(const struct provenance *provenance, struct text *out);

#endif
