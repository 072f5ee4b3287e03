/* A progress bar during a search, and Ctrl-C to end the search. */
#include "cli/views/progress_bar.h"

#include "base/clock.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Set by the signal handler and read by every worker: atomic and lock-free, as handlers require. */
static atomic_bool was_interrupted;

/* Handles Ctrl-C. A second Ctrl-C ends the program as usual. */
static void on_interrupt(int number)
{
    atomic_store(&was_interrupted, true);
    signal(number, SIG_DFL);
}

static bool interrupted(void)
{
    return atomic_load(&was_interrupted);
}

/* Shows the progress, ten times a second. The first second shows nothing, as many searches are
 * faster. */
static void show_progress(double done, void *context)
{
    enum { WIDTH = 40 };
    struct progress_bar *progress = context;
    double now_s = clock_now_s();
    if (now_s - progress->start_s < 1 || now_s - progress->shown_s < 0.1)
        return;
    int filled = (int)(WIDTH * fmin(fmax(done, 0), 1));
    char bar[WIDTH + 1];
    memset(bar, '.', WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[WIDTH] = '\0';
    fprintf(stderr, "\rsearching %s %3.0f %%", bar, 100 * done);
    fflush(stderr);
    progress->shown_s = now_s;
    progress->is_shown = true;
}

void progress_bar_begin(struct progress_bar *progress_bar, const struct options *options,
                        struct search_request *request)
{
    *progress_bar = (struct progress_bar){ .start_s = clock_now_s() };
    request->interrupted = interrupted;
    if (isatty(STDERR_FILENO) && !options->quiet) {
        request->progress = show_progress;
        request->progress_context = progress_bar;
    }
    struct sigaction action = { .sa_handler = on_interrupt };
    sigaction(SIGINT, &action, NULL);
}

void progress_bar_end(const struct progress_bar *progress_bar)
{
    signal(SIGINT, SIG_DFL);
    if (progress_bar->is_shown)
        fprintf(stderr, "\r\033[K");
}
