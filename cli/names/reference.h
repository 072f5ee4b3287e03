/* cli/names/reference.h - the reference page: every table of the program as Markdown. */
#ifndef CLI_NAMES_REFERENCE_H
#define CLI_NAMES_REFERENCE_H

#include <stdio.h>

void reference_write(FILE *to);

/* Writes the keys of every type of file. */
void reference_write_fields(FILE *to);

#endif
