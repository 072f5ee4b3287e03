/* The watchdog of a rank. A lane is an in-order queue of the rank's instructions, such as compute
 * or one direction of messages. */
#include "exec/watchdog.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct lane_state {
    _Atomic(const void *) at;
    atomic_ullong entered; /* number of times that the lane entered an instruction */
    uint64_t seen; /* used by the watchdog's thread: the latest value of `entered`, and for how long
                      it has been unchanged */
    double still_s;
};

struct watchdog {
    struct watchdog_options options;
    struct lane_state *lanes;
    pthread_t thread;
    sigset_t mask_before;
    atomic_bool has_stopped, closing;
    pthread_mutex_t mutex; /* guards reports and `err` */
    struct err err;
    pthread_mutex_t look_mutex; /* guards the members below; locked after other mutexes */
    void (*look)(void *context);
    void *looked_at;
};

static const double longest_period_s = 0.25, shortest_period_s = 0.005;

static double period_s(const struct watchdog *watchdog)
{
    double period = watchdog->options.limit_s / 8;
    if (period <= 0 || period > longest_period_s)
        return longest_period_s;
    return period < shortest_period_s ? shortest_period_s : period;
}

void watchdog_enter(struct watchdog *watchdog, int lane, const void *at)
{
    struct lane_state *state = &watchdog->lanes[lane];
    atomic_store_explicit(&state->at, at, memory_order_release);
    atomic_fetch_add_explicit(&state->entered, 1, memory_order_release);
}

void watchdog_look_with(struct watchdog *watchdog, void (*look)(void *context), void *context)
{
    pthread_mutex_lock(&watchdog->look_mutex);
    watchdog->look = look;
    watchdog->looked_at = context;
    pthread_mutex_unlock(&watchdog->look_mutex);
}

static void look(struct watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->look_mutex);
    if (watchdog->look)
        watchdog->look(watchdog->looked_at);
    pthread_mutex_unlock(&watchdog->look_mutex);
}

void watchdog_look_last(struct watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->look_mutex);
    if (watchdog->look)
        watchdog->look(watchdog->looked_at);
    watchdog->look = NULL;
    pthread_mutex_unlock(&watchdog->look_mutex);
}

/* --- reporting ------------------------------------------------------------------------------ */

static void add_lanes(struct watchdog *watchdog, struct text *out)
{
    const struct watchdog_options *options = &watchdog->options;
    for (int lane = 0; lane < options->num_lanes; lane++) {
        struct lane_state *state = &watchdog->lanes[lane];
        const void *at = atomic_load_explicit(&state->at, memory_order_acquire);
        if (!at)
            continue;
        text_add(out, "rank %d waits ", options->rank);
        options->describe(options->context, lane, at, out);
        text_add(out, "\n");
    }
}

void watchdog_report(struct watchdog *watchdog, const char *reason)
{
    struct text report = { 0 };
    struct err unwritten = { 0 };
    pthread_mutex_lock(&watchdog->mutex);
    look(watchdog);
    text_add(&report, "rank %d: %s\n", watchdog->options.rank, reason);
    add_lanes(watchdog, &report);
    fputs(text_get(&report), stderr);
    fflush(stderr);
    const char *path = watchdog->options.status_path;
    if (path && !file_write(path, report.at, report.length, &unwritten))
        fprintf(stderr, "%s: %s\n", unwritten.where, unwritten.msg);
    pthread_mutex_unlock(&watchdog->mutex);
    text_release(&report);
}

static void *stop(void *argument)
{
    struct watchdog *watchdog = argument;
    watchdog->options.stop(watchdog->options.context);
    atomic_store(&watchdog->has_stopped, true);
    return NULL;
}

static void wait_or_exit(const struct watchdog *watchdog, const atomic_bool *until)
{
    double end_s = clock_now_s() + watchdog->options.grace_s;
    while (!atomic_load(until))
        if (clock_now_s() > end_s)
            _exit(WATCHDOG_EXIT);
        else
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* Ends a run that does not end by itself, so that ranks waiting for this one notice. `stop` calls
 * libraries that may hang, so it runs on a separate thread. */
static void end_run(struct watchdog *watchdog, const char *reason)
{
    char where[24];
    snprintf(where, sizeof where, "rank %d", watchdog->options.rank);
    pthread_mutex_lock(&watchdog->mutex);
    err_set(&watchdog->err, ERR_SYSTEM, where, "%s", reason);
    pthread_mutex_unlock(&watchdog->mutex);
    watchdog_report(watchdog, reason);
    pthread_t stopper;
    bool is_stopping = pthread_create(&stopper, NULL, stop, watchdog) == 0;
    wait_or_exit(watchdog, &watchdog->has_stopped);
    if (is_stopping)
        pthread_join(stopper, NULL);
    wait_or_exit(watchdog, &watchdog->closing);
}

bool watchdog_has_fired(struct watchdog *watchdog, struct err *err)
{
    pthread_mutex_lock(&watchdog->mutex);
    struct err fired = watchdog->err;
    pthread_mutex_unlock(&watchdog->mutex);
    if (fired.code == ERR_NONE)
        return false;
    err_pass(err, &fired);
    return true;
}

/* --- the watching thread -------------------------------------------------------------------- */

/* Time for which no lane has moved although one is busy; 0: there is progress. */
static double standstill_s(struct watchdog *watchdog, double passed_s)
{
    double least_s = -1;
    bool is_busy = false;
    look(watchdog);
    for (int lane = 0; lane < watchdog->options.num_lanes; lane++) {
        struct lane_state *state = &watchdog->lanes[lane];
        uint64_t entered = atomic_load_explicit(&state->entered, memory_order_acquire);
        state->still_s = entered == state->seen ? state->still_s + passed_s : 0;
        state->seen = entered;
        if (least_s < 0 || state->still_s < least_s)
            least_s = state->still_s;
        is_busy = is_busy || atomic_load_explicit(&state->at, memory_order_acquire) != NULL;
    }
    return is_busy ? least_s : 0;
}

/* Wakes the watchdog's thread from its wait, as SIGTERM does. */
static const int wake_signal = SIGURG;

static sigset_t watched_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, wake_signal);
    return signals;
}

static void *watch(void *argument)
{
    struct watchdog *watchdog = argument;
    double period = period_s(watchdog), before_s = clock_now_s();
    struct timespec wait = { .tv_nsec = (long)(1e9 * period) };
    sigset_t signals = watched_signals();
    while (!atomic_load(&watchdog->closing)) {
        bool asked = sigtimedwait(&signals, NULL, &wait) == SIGTERM;
        if (atomic_load(&watchdog->closing))
            break;
        double passed_s = clock_now_s() - before_s, limit_s = watchdog->options.limit_s;
        before_s += passed_s;
        /* a long interval means that the process was stopped (SIGSTOP), so it counts as one
         * period */
        double still_s = standstill_s(watchdog, passed_s < 4 * period ? passed_s : period);
        char reason[80] = "was asked to stop";
        if (!asked)
            snprintf(reason, sizeof reason, "no progress for %.3g s", still_s);
        if (asked || (limit_s > 0 && still_s >= limit_s)) {
            end_run(watchdog, reason);
            break;
        }
    }
    return NULL;
}

struct watchdog *watchdog_new(const struct watchdog_options *options, struct err *err)
{
    struct watchdog *watchdog = arena_grow(NULL, sizeof *watchdog);
    *watchdog = (struct watchdog){ .options = *options };
    size_t lanes_bytes = (size_t)options->num_lanes * sizeof *watchdog->lanes;
    watchdog->lanes = arena_grow(NULL, lanes_bytes);
    memset(watchdog->lanes, 0, lanes_bytes);
    pthread_mutex_init(&watchdog->mutex, NULL);
    pthread_mutex_init(&watchdog->look_mutex, NULL);
    sigset_t signals = watched_signals();
    pthread_sigmask(SIG_BLOCK, &signals, &watchdog->mask_before);
    int status = pthread_create(&watchdog->thread, NULL, watch, watchdog);
    if (status == 0)
        return watchdog;
    err_set(err, ERR_SYSTEM, "watchdog", "a thread could not be started: %s", strerror(status));
    pthread_sigmask(SIG_SETMASK, &watchdog->mask_before, NULL);
    free(watchdog->lanes);
    free(watchdog);
    return NULL;
}

void watchdog_end(struct watchdog *watchdog)
{
    if (!watchdog || atomic_exchange(&watchdog->closing, true))
        return;
    pthread_kill(watchdog->thread, wake_signal);
    pthread_join(watchdog->thread, NULL);
    pthread_sigmask(SIG_SETMASK, &watchdog->mask_before, NULL);
    watchdog_look_with(watchdog, NULL, NULL);
}

void watchdog_free(struct watchdog *watchdog)
{
    if (!watchdog)
        return;
    watchdog_end(watchdog);
    pthread_mutex_destroy(&watchdog->look_mutex);
    pthread_mutex_destroy(&watchdog->mutex);
    free(watchdog->lanes);
    free(watchdog);
}
