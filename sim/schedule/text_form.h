/* sim/schedule/text_form.h - one instruction as text, for messages about it. */
#ifndef SIM_SCHEDULE_TEXT_FORM_H
#define SIM_SCHEDULE_TEXT_FORM_H

#include "base/text.h"
#include "sim/schedule/instr.h"

/* Writes an instruction such as "RA1.0<0@5". */
void instr_write(const struct instr *instr, struct text *out);

#endif
