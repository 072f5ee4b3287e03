/* sim/cost/provenance.h - where a profile's constants come from, by group, in the same words
 * wherever they are told:
 *
 *   fitted here     on runs or benchmarks of this GPU
 *   sibling of X    another GPU's, because the chip or its make is alike
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

extern const char fitted_here[], from_datasheet[]; /* of the words those that stand alone */
extern const struct field provenance_fields[];
extern const size_t num_provenance_fields;

/* A profile's "provenance". Groups that it leaves out, and NULL: fitted where the profile is
 * measured, else from datasheets. ERR_INPUT, where = the key. */
bool provenance_read(const json_t *object, bool is_measured, struct provenance *out,
                     struct err *err);

/* Whether a group's word is "sibling of" another GPU. */
bool provenance_is_siblings(const char *word);

/* "products, memory fitted here; attention, network datasheet", or the one word that all have. */
void provenance_words(const struct provenance *provenance, struct text *out);

#endif
