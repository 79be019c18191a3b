#include "cli/debug.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/settings.h"
#include "cli/ui.h"
#include "common/array.h"
#include "common/clock.h"
#include "common/err.h"
#include "injector/ptrace/step.h"

#define MOST_BYTES (16u << 20)
/* How long the last lines wait for their reader. */
#define END_PATIENCE_MS 1000

static struct {
	char *text;
	size_t bytes, capacity;
	uint64_t first_ns;
	uint64_t began_ns[16]; /* of the steps that have not ended, the outermost first */
	unsigned depth;
	uint64_t lost; /* lines for which there was no room */
	volatile sig_atomic_t busy, held;
} debug;

/* As much as is taken at once: a reader that does not read must not keep limpet from its work, and
 * from detaching. One that is gone raises no signal. */
static void write_out(void)
{
	sigset_t pipe, kept;
	size_t at = 0;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigaddset(&pipe, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &pipe, &kept);
	sigdelset(&pipe, SIGCHLD);
	while (at < debug.bytes) {
		struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
		const size_t left = debug.bytes - at;
		ssize_t done;

		if (poll(&ready, 1, 0) != 1)
			break;
		/* So much has room in a pipe that has any. */
		done = write(STDERR_FILENO, debug.text + at, left < PIPE_BUF ? left : PIPE_BUF);
		if (done >= 0) {
			at += (size_t)done;
		} else if (errno == EPIPE) {
			/* Nobody will read it. */
			at = debug.bytes;
			sigtimedwait(&pipe, NULL, &(struct timespec){0, 0});
		} else if (errno != EINTR) {
			break;
		}
	}
	if (at)
		memmove(debug.text, debug.text + at, debug.bytes - at);
	debug.bytes -= at;
	pthread_sigmask(SIG_SETMASK, &kept, NULL);
}

/* Not where a handler has interrupted one of these. */
static void on_holds(bool held)
{
	const int kept = errno;

	debug.held = held;
	if (!held && !debug.busy && debug.bytes)
		write_out();
	errno = kept;
}

static void print(pid_t tid, uint64_t at_ns, const char *what, const char *after)
{
	const uint64_t since_us = (at_ns - debug.first_ns) / 1000;
	char thread[16] = "", line[512];
	int length;

	if (tid)
		snprintf(thread, sizeof(thread), "%d", tid);
	length = snprintf(line, sizeof(line), "debug %6" PRIu64 ".%03" PRIu64 " %8s  %*s%s%s\n",
			  since_us / 1000, since_us % 1000, thread, (int)debug.depth * 2, "", what,
			  after);
	if (length >= (int)sizeof(line)) {
		length = (int)sizeof(line) - 1;
		line[length - 1] = '\n';
	}
	debug.busy = 1;
	if (debug.bytes + (size_t)length > MOST_BYTES ||
	    limpet_reserve(&debug.text, &debug.capacity, debug.bytes + (size_t)length, 1) < 0) {
		debug.lost++;
	} else {
		memcpy(debug.text + debug.bytes, line, (size_t)length);
		debug.bytes += (size_t)length;
	}
	if (!debug.held)
		write_out();
	debug.busy = 0;
}

static void on_begin(const struct limpet_step *step)
{
	(void)step;
	if (debug.depth < LIMPET_COUNT_OF(debug.began_ns))
		debug.began_ns[debug.depth] = limpet_monotonic_ns();
	debug.depth++;
}

static void on_end(const struct limpet_step *step, int error)
{
	const uint64_t now_ns = limpet_monotonic_ns();
	uint64_t began_ns = now_ns;
	char what[96], after[128];
	char *call = NULL;

	debug.depth--;
	if (debug.depth < LIMPET_COUNT_OF(debug.began_ns))
		began_ns = debug.began_ns[debug.depth];
	if (step->kind == LIMPET_STEP_CALL)
		call = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)step->detail);
	snprintf(what, sizeof(what), "%s%s%s", limpet_step_name(step), call ? " " : "",
		 call ? call : "");
	free(call);
	snprintf(after, sizeof(after), ": %" PRIu64 " us%s%s", (now_ns - began_ns) / 1000,
		 error ? ", " : "", error ? strerror(-error) : "");
	print(step->tid, began_ns, what, after);
}

static void on_note(pid_t tid, const char *words)
{
	print(tid, limpet_monotonic_ns(), words, "");
}

static void at_end(void)
{
	struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};

	do
		write_out();
	while (debug.bytes && poll(&ready, 1, END_PATIENCE_MS) == 1);
	if (debug.lost)
		fprintf(stderr, "debug: %" PRIu64 " steps are not shown\n", debug.lost);
}

static void list_settings(void)
{
	for (const struct limpet_setting *setting = limpet_settings; setting->name; setting++) {
		const char *value = getenv(setting->name);
		char text[128];

		snprintf(text, sizeof(text), "%s=%s (%s)", setting->name, value ? value : "",
			 setting->what);
		print(0, debug.first_ns, limpet_ui_clean(text), "");
	}
}

void limpet_debug_begin(void)
{
	static const struct limpet_step_watcher watcher = {
		.begin = on_begin, .end = on_end, .note = on_note, .holds = on_holds};

	if (debug.first_ns)
		return;
	debug.first_ns = limpet_monotonic_ns();
	limpet_step_watch(&watcher);
	atexit(at_end);
	list_settings();
}

void limpet_debug_begin_if_set(void)
{
	const char *asked = getenv("LIMPET_DEBUG");

	if (asked && *asked && strcmp(asked, "0") != 0)
		limpet_debug_begin();
}
