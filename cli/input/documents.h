/* cli/input/documents.h - "--documents FILE|mean=M,cv=C": the lengths of packed documents. */
#ifndef CLI_INPUT_DOCUMENTS_H
#define CLI_INPUT_DOCUMENTS_H

#include "base/err.h"
#include "models/documents.h"

#include <stdbool.h>

/* Reads "mean=8192,cv=1.2" (cv is 0 if absent), or a file. Each line of the file has a length in
 * tokens and optionally the number of such documents: "8192 40". A # begins a comment. */
bool documents_read(const char *text, int seq, struct documents *out, struct err *err);

#endif
