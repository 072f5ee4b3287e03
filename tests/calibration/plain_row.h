/* tests/calibration/plain_row.h - a row of a table of measured runs, and its conversion to a case
 * that can be simulated. */
#ifndef TESTS_CALIBRATION_PLAIN_ROW_H
#define TESTS_CALIBRATION_PLAIN_ROW_H

#include "calibration/score/score.h"

/* Returns the row that the tests change: a GPT of 24 layers on one node of eight A100. */
struct run_row plain_row(void);

/* The systems (cluster and training software) of the converted rows. row_systems_start makes them
 * before each test and row_systems_end frees them; a test may replace them. */
extern struct run_systems *row_systems;
void row_systems_start(void);
void row_systems_end(void);

/* Converts a row. An error fails the test, and so does a skipped row whose system is known. */
struct run_case convert(const struct run_row *row);
struct run_case convert_known(const struct run_row *row);

/* Whether an assumption containing this text was reported. */
bool is_assumed(const struct run_case *of, const char *text);

#endif
