/* cli/print/scale.h - the units that times and sizes are shown in. */
#ifndef CLI_PRINT_SCALE_H
#define CLI_PRINT_SCALE_H

/* Bytes per GiB, for memory. */
#define GIB 0x1p30

/* Unit and number of decimals for step times of similar length. */
struct time_scale {
    double per_s;     /* shown value = seconds x per_s */
    const char *unit; /* "s", "ms", "us" */
    int decimals;
};
struct time_scale time_scale_of(double step_s);

/* A probability: "3 %", "0.2 %", "< 0.1 %", "> 99.9 %". */
struct risk_text {
    char text[16];
};
struct risk_text risk_words(double probability);

#endif
