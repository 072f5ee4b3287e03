/* models/documents.h - the lengths of the documents that are packed into sequences.
 *
 * A token attends only within its own document (block-causal masks). With documents of lengths l,
 * the mean attention work per token is in proportion to sum l^2 / sum l; with one document per
 * sequence of length s it is in proportion to s. The variation of that work between sequences also
 * depends on l^3 and l^4. A document that two sequences share counts as two, one in each. */
#ifndef MODELS_DOCUMENTS_H
#define MODELS_DOCUMENTS_H

#include <stddef.h>

/* Moments of a document's length l; E is the mean over documents. All 0: one document per
 * sequence. */
struct documents {
    double mean;                 /* E l, tokens */
    double square, cube, fourth; /* E l^k / mean^k; >= 1 */
};

/* The moments of a set of documents: times[i] of them have the length lengths[i] > 0. A document
 * longer than `seq` is cut into several of length `seq` and a shorter rest. */
struct documents documents_of_lengths(const double *lengths, const double *times, size_t count,
                                      double seq);

/* The moments of gamma-distributed lengths, the distribution of greatest entropy with a given mean
 * and mean logarithm; cv is the standard deviation divided by the mean: E l^k / mean^k = product
 * over j < k of 1 + j cv^2. */
struct documents documents_of_spread(double mean, double cv);

/* The length of a sequence of one document with the same mean attention work per token as these
 * documents: sum l^2 / sum l, at most `seq`. */
double documents_attended(const struct documents *documents, double seq);

/* Variance of the attention work of `tokens` consecutive tokens, divided by its squared mean. */
double documents_variance(const struct documents *documents, double tokens);

#endif
