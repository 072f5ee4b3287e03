/* Linked into the library that tests/mutants/mutants.py builds, once with each mutant and once to
 * measure coverage.
 *
 * Check forks for each test function. This file counts the forks of a test program from 0, and the
 * count numbers the functions. MUTANT_ONLY=3,7 runs those functions only, and the program ends with
 * status 1 as soon as one of them fails. MUTANT_MAPS=FOLDER records which code each function
 * executed: FOLDER/N for function N and its child processes; FOLDER/all for code that ran before a
 * fork or in a program that is not a test; FOLDER/times has lines "N seconds". Byte i of a map is 1
 * if the call that -fsanitize-coverage=trace-pc inserts into a basic block returned to offset i of
 * the library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Check's function: it tells the parent that a test function has begun. A child that ends without
 * that message counts as failed. */
void tcase_fn_start(const char *name, const char *file, int line) __attribute__((weak));

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

enum { MOST_FUNCTIONS = 1 << 16, MAP_BYTES = 1 << 24 };

static unsigned char *map; /* NULL: coverage is not recorded */
static pid_t test_program; /* the process whose forks are test functions; 0: none */
static bool is_chosen[MOST_FUNCTIONS], has_choice;
static int num_forks;
static struct timespec forked;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    if (map)
        map[(const char *)__builtin_return_address(0) - __ehdr_start] = 1;
}

static void open_map(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, MAP_BYTES) != 0)
        abort();
    if (map)
        munmap(map, MAP_BYTES);
    map = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        abort();
    close(file);
}

/* Opens the map of the whole program, or of the function that started this program. */
static void open_own_map(int function)
{
    const char *folder = getenv("MUTANT_MAPS");
    char path[4096];
    if (!folder)
        return;
    if (function < 0)
        snprintf(path, sizeof path, "%s/all", folder);
    else
        snprintf(path, sizeof path, "%s/%d", folder, function);
    open_map(path);
}

__attribute__((constructor)) static void begin(void)
{
    const char *only = getenv("MUTANT_ONLY"), *function = getenv("MUTANT_FUNCTION");
    open_own_map(function ? atoi(function) : -1);
    if (!getenv("MUTANT_TEST"))
        return;
    unsetenv("MUTANT_TEST"); /* programs that a test starts are not tests */
    test_program = getpid();
    has_choice = only != NULL;
    for (const char *at = only; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (atoi(at) < MOST_FUNCTIONS)
            is_chosen[atoi(at)] = true;
}

static bool is_left_out(int function)
{
    return has_choice && (function >= MOST_FUNCTIONS || !is_chosen[function]);
}

pid_t fork(void)
{
    pid_t (*real)(void) = (pid_t(*)(void))(size_t)dlsym(RTLD_NEXT, "fork");
    if (getpid() != test_program)
        return real();
    int function = num_forks++;
    clock_gettime(CLOCK_MONOTONIC, &forked);
    pid_t child = real();
    if (child == 0 && is_left_out(function)) {
        tcase_fn_start("left out", __FILE__, __LINE__);
        fflush(NULL);
        _exit(0);
    }
    if (child == 0 && getenv("MUTANT_MAPS")) {
        char number[16];
        snprintf(number, sizeof number, "%d", function);
        setenv("MUTANT_FUNCTION", number, 1);
        open_own_map(function);
    }
    return child;
}

static void note_seconds(void)
{
    const char *folder = getenv("MUTANT_MAPS");
    char path[4096];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(path, sizeof path, "%s/times", folder ? folder : "");
    FILE *file = folder ? fopen(path, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "%d %.6f\n", num_forks - 1,
            (double)(now.tv_sec - forked.tv_sec) + 1e-9 * (double)(now.tv_nsec - forked.tv_nsec));
    fclose(file);
}

pid_t waitpid(pid_t child, int *status, int options)
{
    pid_t (*real)(pid_t, int *, int) =
        (pid_t(*)(pid_t, int *, int))(size_t)dlsym(RTLD_NEXT, "waitpid");
    int own = 0;
    pid_t ended = real(child, &own, options);
    if (status)
        *status = own;
    if (getpid() == test_program && ended > 0) {
        note_seconds();
        if (has_choice && !(WIFEXITED(own) && WEXITSTATUS(own) == 0))
            _exit(1);
    }
    return ended;
}
