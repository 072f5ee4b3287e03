/* cli/input/documents.h - "--documents FILE|mean=M,cv=C": how long packed documents are. */
#ifndef CLI_INPUT_DOCUMENTS_H
#define CLI_INPUT_DOCUMENTS_H

#include "base/err.h"
#include "models/documents.h"

#include <stdbool.h>

/* "mean=8192,cv=1.2" (cv=0 when absent), or a file whose lines have a length in tokens and, for
 * several documents, their number: "8192 40". A # begins a comment. */
bool documents_read(const char *text, int seq, struct documents *out, struct err *err);

#endif
