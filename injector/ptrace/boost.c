#include "injector/ptrace/boost.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "injector/proc/proc.h"

#ifndef FUTEX_LOCK_PI2 /* Linux 5.14 */
#define FUTEX_LOCK_PI2 13
#endif

#define TURN_NS 50000u
#define KERNEL_TURN_NS 200000u
/* Then it is something else that is waited for. */
#define TURNS_NS 100000000u

static uint32_t word; /* as of a lock: who holds it */

static void mask_child(int how)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(how, &child, NULL);
}

/* A signal does not end FUTEX_LOCK_PI: the kernel begins it again, and now the lock is free. */
void limpet_boost_on_child(int number)
{
	(void)number;
	__atomic_store_n(&word, 0, __ATOMIC_RELAXED);
}

void limpet_boost_begin(struct limpet_boost *boost, pid_t pid, pid_t tid)
{
	*boost = (struct limpet_boost){.pid = pid, .tid = tid, .began_ns = limpet_monotonic_ns()};
	mask_child(SIG_UNBLOCK);
}

static size_t read_file(pid_t tid, const char *name, char *text, size_t bytes)
{
	char path[40];
	LIMPET_CLOSE int fd = -1;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? 0 : read(fd, text, bytes - 1);
	text[got > 0 ? got : 0] = 0;
	return got > 0 ? (size_t)got : 0;
}

/* As proc(5) has it: R for one that has a processor, or waits for one; 0 for one that is gone. */
static char state_of(pid_t tid)
{
	char line[64];
	const char *state;

	read_file(tid, "stat", line, sizeof(line));
	state = strrchr(line, ')');
	return state && state[1] ? state[2] : 0;
}

/* Not on its way back to its program. Where that may not be read, any may be. */
static bool is_in_kernel(pid_t tid)
{
	char stack[1024];

	return !read_file(tid, "stack", stack, sizeof(stack)) || !strstr(stack, "to_user_mode");
}

/* The next of its siblings that could run; 0: the round is over. */
static pid_t next_sibling(struct limpet_boost *boost, bool in_kernel)
{
	while (boost->next < boost->sibling_count) {
		pid_t sibling = boost->siblings[boost->next++];

		if (sibling != boost->tid && state_of(sibling) == 'R' &&
		    (!in_kernel || is_in_kernel(sibling)))
			return sibling;
	}
	return 0;
}

/* While the thread itself sleeps, lending it a priority is of no use. In state D it waits for the
 * kernel, and so for a sibling that is there. */
static pid_t whose_turn(struct limpet_boost *boost)
{
	const bool new_round = boost->next >= boost->sibling_count;
	const char state = state_of(boost->tid);

	boost->turn_ns = TURN_NS;
	if (state == 'R' || limpet_monotonic_ns() - boost->began_ns > TURNS_NS)
		return boost->tid;
	if (new_round) {
		free(boost->siblings);
		boost->siblings = NULL;
		boost->next = 0;
		boost->sibling_count = limpet_proc_tasks(boost->pid, &boost->siblings);
	}
	if (state == 'D')
		boost->turn_ns = KERNEL_TURN_NS;
	return next_sibling(boost, state == 'D') ?: boost->tid;
}

/* The first is the thread's own. */
void limpet_boost_turn(struct limpet_boost *boost)
{
	boost->now = boost->now ? whose_turn(boost) : boost->tid;
	if (boost->now == boost->tid)
		boost->turn_ns = TURN_NS;
	__atomic_store_n(&word, (uint32_t)boost->now, __ATOMIC_SEQ_CST);
}

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* The signal ends this, too; one that came just before does not. */
static void sleep_plainly(uint64_t until_ns)
{
	const uint64_t longest_ns = 1000000;
	uint64_t now_ns = limpet_monotonic_ns();
	struct timespec left;

	if (now_ns >= until_ns)
		return;
	left = to_timespec(until_ns - now_ns < longest_ns ? until_ns - now_ns : longest_ns);
	nanosleep(&left, NULL);
}

/* Not with FUTEX_PRIVATE_FLAG: such a lock's holder would have to share our memory. */
static void sleep_until(uint64_t until_ns)
{
	const struct timespec until = to_timespec(until_ns);

	if (syscall(SYS_futex, &word, FUTEX_LOCK_PI2, 0, &until, NULL, 0) < 0 && errno != ETIMEDOUT)
		sleep_plainly(until_ns);
}

/* A thread that has no need of turns is left alone for long. */
bool limpet_boost_sleep(const struct limpet_boost *boost, uint64_t until_ns)
{
	const uint64_t now_ns = limpet_monotonic_ns();

	if (now_ns - boost->began_ns <= TURNS_NS && until_ns > now_ns + boost->turn_ns)
		until_ns = now_ns + boost->turn_ns;
	sleep_until(until_ns);
	/* By then it is free, or ours. */
	return (__atomic_load_n(&word, __ATOMIC_SEQ_CST) & FUTEX_TID_MASK) != (uint32_t)boost->now;
}

void limpet_boost_end(struct limpet_boost *boost)
{
	free(boost->siblings);
	boost->siblings = NULL;
	mask_child(SIG_BLOCK);
}

void limpet_boost_for(pid_t tid, uint64_t ns)
{
	__atomic_store_n(&word, (uint32_t)tid, __ATOMIC_SEQ_CST);
	sleep_until(limpet_monotonic_ns() + ns);
}
