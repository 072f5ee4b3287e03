/* models/corpus.h - training text: a text that is shipped under a name, or a user's file.
 *
 * A shipped text is models/texts/NAME.txt; NAME.json in the same folder gives its source. */
#ifndef MODELS_CORPUS_H
#define MODELS_CORPUS_H

#include "base/err.h"
#include "base/field.h"

#include <limits.h>

struct corpus {
    char name[64];
    char summary[160];
    char source[320];
    char licence[64];
};

extern const struct field corpus_fields[];
extern const size_t num_corpus_fields;

/* All shipped texts, sorted by name; the caller frees. NULL when a description is faulty or none is
 * found. */
struct corpus *corpora(size_t *count, struct err *err);

/* Finds the file of `name`, which is a path or the name of a shipped text. An unknown name is
 * ERR_USAGE with the nearest text; a path is not checked before it is read. */
bool corpus_path(const char *name, char path[PATH_MAX], struct err *err);

#endif
