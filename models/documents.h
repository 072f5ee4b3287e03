/* models/documents.h - how long the documents are that are packed into sequences.
 *
 * Tokens of one document see no other (block-causal masks): attention over documents of lengths l
 * does sum l^2 / sum l keys' work a token where one document a sequence does s. How much that
 * differs between sequences needs l^3 and l^4 too. Lengths are those of the pieces as they lie in
 * one sequence. */
#ifndef MODELS_DOCUMENTS_H
#define MODELS_DOCUMENTS_H

#include <stddef.h>

/* Moments of a length l. All 0: one document a sequence. */
struct documents {
    double mean;                 /* E l, tokens */
    double square, cube, fourth; /* E l^k / mean^k; >= 1 */
};

/* Documents of the given lengths, > 0, each times[i] times. Longer ones are cut into pieces of
 * `seq`. */
struct documents documents_of_lengths(const double *lengths, const double *times, size_t count,
                                      double seq);

/* Gamma-distributed lengths, the distribution of greatest entropy with a given mean and mean
 * logarithm: E l^k / mean^k = product over j < k of 1 + j cv^2. */
struct documents documents_of_spread(double mean, double cv);

/* Keys that are worth as much as those that a token of `seq` sees before masking: sum l^2 / sum l,
 * at most `seq`. */
double documents_attended(const struct documents *documents, double seq);

/* Relative variance of the attention work of `tokens` tokens in a row. */
double documents_variance(const struct documents *documents, double tokens);

#endif
