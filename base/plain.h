/* base/plain.h - text that may be shown on a terminal unchanged.
 *
 * A name in a file can contain bytes that control a terminal: escapes that move the cursor or
 * change the title, and characters that reverse the direction of writing, so that "exe.txt" reads
 * "txt.exe". Plain text has neither. It is one line of UTF-8. */
#ifndef BASE_PLAIN_H
#define BASE_PLAIN_H

#include <stddef.h>

/* Number of bytes of the plain character at `at`; 0: it is a control character (C0, DEL, C1), a
 * line or paragraph separator, a bidirectional mark, or not valid UTF-8. */
size_t plain_bytes(const char *at);

/* The first character that is not plain; NULL: all are. */
const char *plain_fault(const char *text);

/* Replaces each character that is not plain by one '?'. */
void plain_make(char *text);

#endif
