/* base/plain.h - text that may be shown on a terminal as it is.
 *
 * A name in a file can hold bytes that a terminal obeys: escapes that move the cursor or change the
 * title, and characters that turn the direction of writing, so that "exe.txt" reads "txt.exe".
 * Plain text has neither. It is UTF-8, in one line. */
#ifndef BASE_PLAIN_H
#define BASE_PLAIN_H

#include <stddef.h>

/* Bytes of the plain character at `at`; 0: a control character (C0, DEL, C1), a line or paragraph
 * separator, a bidirectional mark, or no UTF-8. */
size_t plain_bytes(const char *at);

/* The first character that is not plain; NULL: all are. */
const char *plain_fault(const char *text);

/* Puts one '?' in the place of each character that is not plain. */
void plain_make(char *text);

#endif
