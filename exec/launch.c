/* Starts the ranks of one machine as processes, copies their output, and ends all of them when one
 * fails. */
#define _GNU_SOURCE // sched_setaffinity, pipe2, environ; NOLINT(bugprone-reserved-identifier)
#include "exec/launch.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "exec/comm/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NUM_OUTPUTS = 2 }; /* standard output and standard error */

/* The output of a rank, which is copied line by line. */
struct output {
    int fd; /* pipe to read; -1: ended, or not read by the launcher */
    struct text line;
};

struct child {
    pid_t pid;       /* 0: the rank has ended */
    int status;      /* status from waitpid once it has ended */
    bool was_forced; /* the launcher had to kill it */
    struct output outputs[NUM_OUTPUTS];
};

struct launcher {
    const struct launch_options *options;
    struct child *children;
    int num_started, num_running;
    int signals; /* signalfd */
    sigset_t mask_before;
    int meeting_fd, meeting_port;
    unsigned char token[16];
    int culprit;   /* the first rank that failed, or -1 */
    int asked;     /* the signal sent to ask ranks to end; 0: not sent */
    double kill_s; /* once `asked` was sent: time at which remaining ranks are killed */
    bool killed;
};

/* --- starting ------------------------------------------------------------------------------- */

static bool fail(const char *what, struct err *err)
{
    return err_set(err, ERR_SYSTEM, "launch", "%s: %s", what, strerror(errno));
}

/* Opens the meeting socket before any rank exists, so that no other program can take the port. */
static bool open_meeting(struct launcher *launcher, struct err *err)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (!socket_address("127.0.0.1", 0, &address, err))
        return false;
    launcher->meeting_fd = socket_listen(&address, err);
    if (launcher->meeting_fd < 0)
        return false;
    getsockname(launcher->meeting_fd, (struct sockaddr *)&address, &size);
    launcher->meeting_port = socket_port(&address);
    if (getrandom(launcher->token, sizeof launcher->token, 0) != sizeof launcher->token)
        return fail("random bytes", err);
    return true;
}

/* Blocks the signals that the launcher handles and opens a descriptor from which they are read. The
 * ranks get the previous signal mask. */
static bool read_signals(struct launcher *launcher, struct err *err)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &launcher->mask_before);
    launcher->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return launcher->signals >= 0 || fail("signals", err);
}

/* Pins the rank to an equal share of this process's cores, if there is at least one per rank. */
static void pin_rank(int rank, int num_ranks)
{
    cpu_set_t all, own;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < num_ranks)
        return;
    int share = CPU_COUNT(&all) / num_ranks, seen = 0;
    CPU_ZERO(&own);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &all))
            continue;
        if (seen / share == rank)
            CPU_SET(core, &own);
        seen++;
    }
    sched_setaffinity(0, sizeof own, &own);
}

__attribute__((format(printf, 2, 3))) static void set_variable(const char *name, const char *format,
                                                               ...)
{
    char text[64];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    setenv(name, text, 1);
}

static void set_place(const struct launcher *launcher, int rank)
{
    set_variable("SIMSEARCH_RANK", "%d", rank);
    set_variable("SIMSEARCH_RANKS", "%d", launcher->options->num_ranks);
    set_variable("SIMSEARCH_MEETING", "127.0.0.1:%d", launcher->meeting_port);
    char token[2 * sizeof launcher->token + 1];
    for (size_t i = 0; i < sizeof launcher->token; i++)
        snprintf(token + 2 * i, 3, "%02x", (unsigned)launcher->token[i]);
    set_variable("SIMSEARCH_TOKEN", "%s", token);
    unsetenv("SIMSEARCH_MEETING_FD");
    if (rank == 0)
        set_variable("SIMSEARCH_MEETING_FD", "%d", launcher->meeting_fd);
    /* a rank computes on the threads of its streams only, so libraries must not start threads */
    set_variable("OPENBLAS_NUM_THREADS", "1");
    set_variable("OMP_NUM_THREADS", "1");
}

/* Runs in the child process, which has one thread; never returns. */
static void become_rank(const struct launcher *launcher, int rank, pid_t parent, int (*pipes)[2])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(LAUNCH_EXIT_LOST); /* the parent died before prctl took effect */
    sigprocmask(SIG_SETMASK, &launcher->mask_before, NULL);
    pin_rank(rank, launcher->options->num_ranks);
    set_place(launcher, rank);
    if (rank == 0)
        fcntl(launcher->meeting_fd, F_SETFD, 0);
    for (int i = 0; i < NUM_OUTPUTS && rank > 0; i++)
        dup2(pipes[i][1], STDOUT_FILENO + i);
    const char *program = launcher->options->program;
    execv(program ? program : "/proc/self/exe", launcher->options->arguments);
    fprintf(stderr, "%s: %s\n", program ? program : "/proc/self/exe", strerror(errno));
    _exit(127);
}

static bool open_pipes(int (*pipes)[2], struct err *err)
{
    for (int i = 0; i < NUM_OUTPUTS; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0) {
            if (i > 0) {
                close(pipes[0][0]);
                close(pipes[0][1]);
            }
            return fail("a pipe", err);
        }
    return true;
}

static bool start_rank(struct launcher *launcher, int rank, struct err *err)
{
    struct child *child = &launcher->children[rank];
    int pipes[NUM_OUTPUTS][2] = { { -1, -1 }, { -1, -1 } };
    *child = (struct child){ .outputs = { { .fd = -1 }, { .fd = -1 } } };
    if (rank > 0 && !open_pipes(pipes, err))
        return false;
    pid_t parent = getpid();
    child->pid = fork();
    if (child->pid == 0)
        become_rank(launcher, rank, parent, pipes);
    for (int i = 0; i < NUM_OUTPUTS && rank > 0; i++) {
        close(pipes[i][1]);
        child->outputs[i].fd = pipes[i][0];
        fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
    }
    launcher->num_started++;
    if (child->pid < 0) {
        child->pid = 0;
        return fail("a process", err);
    }
    launcher->num_running++;
    return true;
}

/* --- watching the processes ----------------------------------------------------------------- */

static void signal_all(const struct launcher *launcher, int signal)
{
    for (int rank = 0; rank < launcher->num_started; rank++)
        if (launcher->children[rank].pid > 0)
            kill(launcher->children[rank].pid, signal);
}

static void ask_to_end(struct launcher *launcher, int signal)
{
    if (launcher->asked != 0)
        return;
    launcher->asked = signal;
    launcher->kill_s = clock_now_s() + launcher->options->grace_s;
    signal_all(launcher, signal);
}

/* Writes complete lines. After the rank has ended it also writes a last incomplete line. */
static void write_lines(struct output *output, int to, int rank, bool ended)
{
    char *begin = output->line.at;
    size_t left = output->line.length;
    FILE *file = to == 0 ? stdout : stderr;
    for (char *end; left > 0; begin = end) {
        end = memchr(begin, '\n', left);
        if (!end && !ended)
            break;
        size_t length = end ? (size_t)(end - begin) : left;
        fprintf(file, "[rank %d] %.*s\n", rank, (int)length, begin);
        end = end ? end + 1 : begin + left;
        left -= (size_t)(end - begin);
    }
    fflush(file);
    struct text rest = { 0 };
    if (left > 0)
        text_add(&rest, "%.*s", (int)left, begin);
    text_release(&output->line);
    output->line = rest;
}

static void read_output(struct output *output, int to, int rank)
{
    char bytes[4096];
    ssize_t count;
    while ((count = read(output->fd, bytes, sizeof bytes)) > 0)
        text_add(&output->line, "%.*s", (int)count, bytes);
    bool ended = count == 0 || (errno != EAGAIN && errno != EINTR);
    write_lines(output, to, rank, ended);
    if (!ended)
        return;
    close(output->fd);
    output->fd = -1;
    text_release(&output->line);
}

/* Whether the end of a rank explains the failure better than that of the known culprit. A rank that
 * ended on request explains nothing. A rank that was killed from outside or failed by itself
 * explains it, even if ranks that lost their connection to it ended earlier. */
static bool tells_more(const struct launcher *launcher, int status)
{
    bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) != launcher->asked &&
                      !(launcher->killed && WTERMSIG(status) == SIGKILL);
    if (launcher->culprit < 0)
        return was_killed || (status != 0 && launcher->asked == 0);
    int before = launcher->children[launcher->culprit].status;
    bool only_lost_another = WIFEXITED(before) && WEXITSTATUS(before) == LAUNCH_EXIT_LOST;
    bool failed =
        WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != LAUNCH_EXIT_LOST;
    return (was_killed && !WIFSIGNALED(before)) || (failed && only_lost_another);
}

/* Sets err to the way the rank ended and returns false. */
static bool blame(const struct launcher *launcher, struct err *err)
{
    char where[24];
    snprintf(where, sizeof where, "rank %d", launcher->culprit);
    int end = launcher->children[launcher->culprit].status;
    if (WIFSIGNALED(end))
        return err_set(err, ERR_SYSTEM, where,
                       "was killed by signal %d (%s); the other ranks are stopped", WTERMSIG(end),
                       strsignal(WTERMSIG(end)));
    return err_set(err, ERR_SYSTEM, where, "ended with exit code %d; the other ranks are stopped",
                   WEXITSTATUS(end));
}

static void tell_of_kill(const struct launcher *launcher)
{
    const struct launch_options *options = launcher->options;
    struct err err = { 0 };
    if (!options->hear || !WIFSIGNALED(launcher->children[launcher->culprit].status))
        return;
    blame(launcher, &err);
    options->hear(options->context, &err);
}

static void reap(struct launcher *launcher)
{
    for (int rank = 0; rank < launcher->num_started; rank++) {
        struct child *child = &launcher->children[rank];
        if (child->pid == 0 || waitpid(child->pid, &child->status, WNOHANG) != child->pid)
            continue;
        child->pid = 0;
        launcher->num_running--;
        if (tells_more(launcher, child->status)) {
            launcher->culprit = rank;
            tell_of_kill(launcher);
        }
    }
    if (launcher->culprit >= 0)
        ask_to_end(launcher, SIGTERM);
}

static void take_signals(struct launcher *launcher)
{
    struct signalfd_siginfo info;
    while (read(launcher->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
            ask_to_end(launcher, (int)info.ssi_signo);
}

/* Milliseconds until the remaining ranks must be killed; -1: no rank is to be killed. */
static int patience_ms(const struct launcher *launcher)
{
    if (launcher->asked == 0 || launcher->killed)
        return -1;
    double left_s = launcher->kill_s - clock_now_s();
    return (int)fmin(1e6, ceil(1000 * fmax(0, left_s)));
}

static void wait_for_news(struct launcher *launcher, struct pollfd *polls)
{
    nfds_t count = 0;
    polls[count++] = (struct pollfd){ .fd = launcher->signals, .events = POLLIN };
    for (int rank = 0; rank < launcher->num_started; rank++)
        for (int i = 0; i < NUM_OUTPUTS; i++)
            polls[count++] =
                (struct pollfd){ .fd = launcher->children[rank].outputs[i].fd, .events = POLLIN };
    if (poll(polls, count, patience_ms(launcher)) > 0)
        for (nfds_t i = 1; i < count; i++) {
            int rank = (int)(i - 1) / NUM_OUTPUTS, to = (int)(i - 1) % NUM_OUTPUTS;
            if (polls[i].revents)
                read_output(&launcher->children[rank].outputs[to], to, rank);
        }
    take_signals(launcher);
    reap(launcher);
    if (patience_ms(launcher) == 0) {
        launcher->killed = true;
        for (int rank = 0; rank < launcher->num_started; rank++)
            launcher->children[rank].was_forced = launcher->children[rank].pid > 0;
        signal_all(launcher, SIGKILL);
    }
}

/* Reads the remaining output without waiting for its end, as a process that a rank left behind may
 * hold the pipes open. */
static void drain(struct launcher *launcher)
{
    for (int rank = 0; rank < launcher->num_started; rank++)
        for (int i = 0; i < NUM_OUTPUTS; i++) {
            struct output *output = &launcher->children[rank].outputs[i];
            if (output->fd >= 0)
                read_output(output, i, rank);
            if (output->fd < 0)
                continue;
            write_lines(output, i, rank, true);
            close(output->fd);
            text_release(&output->line);
        }
}

static void watch(struct launcher *launcher)
{
    size_t num_polls = 1 + NUM_OUTPUTS * (size_t)launcher->num_started;
    struct pollfd *polls = arena_grow(NULL, num_polls * sizeof *polls);
    while (launcher->num_running > 0)
        wait_for_news(launcher, polls);
    free(polls);
    drain(launcher);
}

/* --- the verdict ---------------------------------------------------------------------------- */

/* Finds a rank that ignored the request to end, if no rank was killed from outside or failed by
 * itself. It probably hangs, and the other ranks may have failed because it did not answer. -1:
 * none. */
static int rank_that_would_not_end(const struct launcher *launcher)
{
    int end = launcher->children[launcher->culprit].status;
    if (!WIFEXITED(end) || WEXITSTATUS(end) != LAUNCH_EXIT_LOST)
        return -1;
    for (int rank = 0; rank < launcher->num_started; rank++)
        if (launcher->children[rank].was_forced)
            return rank;
    return -1;
}

static bool judge(const struct launcher *launcher, int *status, struct err *err)
{
    char where[24];
    *status = 0;
    if (launcher->asked == 0) /* no rank failed: reap() asks the others to end */
        return true;
    *status = LAUNCH_EXIT_LOST;
    if (launcher->culprit < 0)
        return err_set(err, ERR_SYSTEM, "launch", "interrupted; all ranks were stopped");
    int end = launcher->children[launcher->culprit].status;
    if (!WIFSIGNALED(end))
        *status = WEXITSTATUS(end);
    int still = rank_that_would_not_end(launcher);
    snprintf(where, sizeof where, "rank %d", still);
    return still < 0
               ? blame(launcher, err)
               : err_set(
                     err, ERR_SYSTEM, where,
                     "did not end when asked and was killed; the run ended because rank %d failed",
                     launcher->culprit);
}

static void release(struct launcher *launcher)
{
    close(launcher->signals); /* has no effect on -1 */
    sigprocmask(SIG_SETMASK, &launcher->mask_before, NULL);
    free(launcher->children);
}

bool launch(const struct launch_options *options, int *status, struct err *err)
{
    struct launcher launcher = {
        .options = options, .signals = -1, .meeting_fd = -1, .culprit = -1
    };
    sigprocmask(SIG_SETMASK, NULL, &launcher.mask_before);
    launcher.children = arena_grow(NULL, (size_t)options->num_ranks * sizeof *launcher.children);
    *status = 1;
    bool ok = open_meeting(&launcher, err) && read_signals(&launcher, err);
    /* otherwise this process and a child would both write the buffered output */
    fflush(NULL);
    for (int rank = 0; rank < options->num_ranks && ok; rank++)
        ok = start_rank(&launcher, rank, err);
    /* only rank 0 keeps the socket, so connections after its death are refused */
    close(launcher.meeting_fd); /* has no effect on -1 */
    if (!ok)
        ask_to_end(&launcher, SIGKILL);
    watch(&launcher);
    ok = ok && judge(&launcher, status, err);
    release(&launcher);
    return ok;
}
