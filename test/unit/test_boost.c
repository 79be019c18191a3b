/* A thread that limpet waits for has a real-time priority meanwhile, and its own before and after.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/boost.h"
#include "injector/ptrace/priority.h"
#include "test/unit/skip_reason.h"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif
#define LONG_NS 1000000000u /* nothing is lent to one that is waited for for a moment */

/* As the kernel runs it: negative for real-time priorities; 99 if it cannot be read. */
static long priority_of(pid_t pid)
{
	char path[64], line[1024];
	long priority = 99;
	size_t bytes;
	FILE *file;
	char *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return priority;
	bytes = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	line[bytes] = 0;
	at = strrchr(line, ')');
	if (at)
		sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %ld",
		       &priority);
	return priority;
}

static pid_t fork_with_us(void)
{
	const pid_t parent = getpid(), pid = fork();

	assert_true(pid >= 0);
	if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
		_exit(1);
	return pid;
}

static pid_t start_child(bool busy)
{
	const pid_t pid = fork_with_us();

	while (pid == 0)
		if (!busy)
			pause();
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static bool lend(pid_t pid)
{
	uint64_t sleep_ns;

	return limpet_boost_lend(pid, pid, LONG_NS, &sleep_ns);
}

/* Raises the priority, and lends to `pid` until `seen` has it; false: that is not to be had here. A
 * busy machine may hold it up for longer than it lasts: then once more. */
static bool borrow(pid_t pid, pid_t seen, struct limpet_priority *ret_before)
{
	for (unsigned i = 0; i < 20; i++) {
		const struct limpet_priority before = limpet_priority_raise(LIMPET_PRIORITY_STOP);
		const uint64_t began_ns = limpet_monotonic_ns();

		*ret_before = before;
		do {
			const uint64_t turn_ns = limpet_monotonic_ns();

			lend(pid);
			/* We may be on the lender's processor: it is to have it. */
			do {
				usleep(100);
				if (priority_of(seen) == -1 - LIMPET_BOOST_PRIORITY)
					return true;
			} while (limpet_monotonic_ns() - turn_ns < 2000000);
			limpet_boost_return();
		} while (limpet_monotonic_ns() - began_ns < 200000000);
		limpet_priority_restore(before);
	}
	return false;
}

static void give_back(struct limpet_priority before)
{
	limpet_boost_return();
	limpet_priority_restore(before);
}

/* NULL: the kernel and this user's rights permit it. */
static const char *why_not(void)
{
	const struct sched_param above = {.sched_priority = LIMPET_BOOST_ABOVE}, none = {0};
	static uint32_t word;
	cpu_set_t allowed;

	if (sched_setscheduler(0, SCHED_RR, &above) < 0 ||
	    sched_setscheduler(0, SCHED_OTHER, &none) < 0)
		return "no real-time priority is to be had";
	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0 || CPU_COUNT(&allowed) < 2)
		return "there is one processor";
	if (syscall(SYS_futex, &word, FUTEX_LOCK_PI2, 0, NULL, NULL, 0) < 0 ||
	    syscall(SYS_futex, &word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) < 0)
		return "Linux is older than 5.14";
	return NULL;
}

/* test_lends_at_all makes sure that it is not this in every process. */
static void borrow_or_skip(pid_t pid, pid_t seen, struct limpet_priority *ret_before)
{
	if (borrow(pid, seen, ret_before))
		return;
	end_child(pid);
	limpet_skip(why_not() ?: "the machine was too busy to lend anything in time");
}

/* Whether it is so in one of several processes: limpet gives up where the machine is too busy to
 * answer in time, for as long as it runs. */
static bool in_some_process(bool (*is_so)(pid_t child), bool busy)
{
	bool found = false;

	for (unsigned i = 0; i < 50 && !found; i++) {
		const pid_t child = start_child(busy), process = fork_with_us();
		int status;

		if (process == 0)
			_exit(!is_so(child));
		assert_int_equal(waitpid(process, &status, 0), process);
		found = status == 0;
		end_child(child);
	}
	return found;
}

static bool lends(pid_t child)
{
	struct limpet_priority before;

	return borrow(child, child, &before);
}

static void test_lends_at_all(void **state)
{
	const char *reason = why_not();

	(void)state;
	if (reason)
		limpet_skip(reason);
	assert_true(in_some_process(lends, false));
}

/* An idle machine answers sooner than anything is lent; one that did not is lent something at
 * once. */
static bool lends_later(pid_t child)
{
	const long own = priority_of(child);
	const struct limpet_priority before = limpet_priority_raise(LIMPET_PRIORITY_STOP);
	uint64_t at_first_ns;
	const bool is_own =
		!limpet_boost_lend(child, child, 0, &at_first_ns) && priority_of(child) == own;

	limpet_boost_return();
	limpet_priority_restore(before);
	return at_first_ns > 100000 && at_first_ns <= 1000000 && is_own && lends(child);
}

static void test_lends_later(void **state)
{
	const char *reason = why_not();

	(void)state;
	if (reason)
		limpet_skip(reason);
	assert_true(in_some_process(lends_later, false));
}

/* Where the lender begins there is no other thread of limpet's, and one that it lends to that stays
 * there, and never rests. It returns all the same, and lends again. */
static bool returns_from_there(pid_t child)
{
	struct limpet_priority before;
	cpu_set_t here, all;
	bool returned;

	CPU_ZERO(&here);
	CPU_SET((unsigned)sched_getcpu(), &here);
	if (sched_getaffinity(0, sizeof(all), &all) < 0 ||
	    sched_setaffinity(0, sizeof(here), &here) < 0 ||
	    sched_setaffinity(child, sizeof(here), &here) < 0 ||
	    sched_setaffinity(0, sizeof(all), &all) < 0 || !borrow(child, child, &before))
		return false;
	limpet_boost_return();
	returned = lend(child);
	give_back(before);
	return returned;
}

static void test_returns_from_there(void **state)
{
	const char *reason = why_not();

	(void)state;
	if (reason)
		limpet_skip(reason);
	assert_true(in_some_process(returns_from_there, true));
}

static void assert_no_thread_is_real_time(void)
{
	pid_t *tids = NULL;
	const int count = limpet_proc_tasks(getpid(), &tids);

	assert_true(count >= 4);
	for (int i = 0; i < count; i++)
		assert_true(priority_of(tids[i]) >= 0);
	free(tids);
}

/* A thread that has a processor, and one that sleeps; again and again. */
static void test_lends_and_takes_back(void **state)
{
	struct limpet_priority before;

	(void)state;
	for (unsigned busy = 0; busy < 2; busy++) {
		const pid_t child = start_child(busy);
		const long own = priority_of(child);

		assert_true(own >= 0);
		for (unsigned i = 0; i < 20; i++) {
			borrow_or_skip(child, child, &before);
			limpet_boost_return();
			assert_int_equal(priority_of(child), own);
			limpet_priority_restore(before);
			/* Who has no real-time priority lends none, nor does one of ours stay. */
			assert_no_thread_is_real_time();
			lend(child);
			assert_int_equal(priority_of(child), own);
			limpet_boost_return();
		}
		end_child(child);
	}
}

static void *run_busily(void *argument)
{
	for (;;)
		__asm__ volatile("" ::"r"(argument) : "memory");
	return NULL;
}

static void *sleep_long(void *argument)
{
	for (;;)
		pause();
	return argument;
}

/* Without a word from us in between; a busy machine may need more than one try. */
static bool all_have_turns(pid_t pid, const pid_t *tids, int count)
{
	for (unsigned i = 0; i < 100; i++) {
		const struct limpet_priority before = limpet_priority_raise(LIMPET_PRIORITY_STOP);
		unsigned seen = 0;

		lend(pid);
		for (unsigned looks = 0; looks < 500 && seen != (1u << count) - 1; looks++) {
			usleep(100);
			for (int k = 0; k < count; k++)
				if (priority_of(tids[k]) == -1 - LIMPET_BOOST_PRIORITY)
					seen |= 1u << k;
		}
		give_back(before);
		if (seen == (1u << count) - 1)
			return true;
		/* What was lent comes back in time. */
		usleep(100000);
	}
	return false;
}

/* While the thread that is waited for sleeps, each of its siblings that could run gets a turn, also
 * behind many that sleep. */
static void test_siblings_have_turns(void **state)
{
	enum { SLEEPING = 100, BUSY = 3 };
	const pid_t child = fork_with_us();
	struct limpet_priority before;
	pid_t *tids = NULL;
	pthread_t thread;
	int count;

	(void)state;
	if (child == 0) {
		for (unsigned i = 0; i < SLEEPING + BUSY; i++)
			if (pthread_create(&thread, NULL, i < SLEEPING ? sleep_long : run_busily,
					   NULL))
				abort();
		sleep_long(NULL);
	}
	do {
		free(tids);
		count = limpet_proc_tasks(child, &tids);
	} while (count < 1 + SLEEPING + BUSY);
	borrow_or_skip(child, tids[1 + SLEEPING], &before);
	give_back(before);
	assert_true(all_have_turns(child, tids + 1 + SLEEPING, BUSY));
	for (int i = 0; i < count; i++)
		assert_true(priority_of(tids[i]) >= 0);
	free(tids);
	end_child(child);
}

/* A page of a child's that nobody can read before a thread of the child permits it. */
static struct {
	int faults;
	char *page;
	bool *was_lent; /* in memory that both have */
} held;

static bool hold_page(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range = {(uintptr_t)held.page, 4096},
					.mode = UFFDIO_REGISTER_MODE_MISSING};

	held.faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	return held.faults >= 0 && ioctl(held.faults, UFFDIO_API, &api) == 0 &&
	       ioctl(held.faults, UFFDIO_REGISTER, &range) == 0;
}

/* Permits it once it has the priority that was lent, or half a minute later. It mostly waits for a
 * processor in the kernel, as one would that has a lock there. */
static void *hold_until_lent(void *unused)
{
	struct uffdio_zeropage zero = {.range = {(uintptr_t)held.page, 4096}};
	const uint64_t began_ns = limpet_monotonic_ns();

	do {
		for (unsigned i = 0; i < 50; i++)
			sched_yield();
		*held.was_lent = priority_of(gettid()) == -1 - LIMPET_BOOST_PRIORITY;
	} while (!*held.was_lent && limpet_monotonic_ns() - began_ns < 30000000000);
	if (ioctl(held.faults, UFFDIO_ZEROPAGE, &zero) < 0)
		abort();
	return unused;
}

/* Limpet itself waits in the kernel, for memory that a thread of the program has to make
 * accessible: that thread gets its turn. */
static void test_while_limpet_waits_in_the_kernel(void **state)
{
	struct limpet_priority before;
	pid_t child = start_child(true);
	pthread_t thread;
	uint64_t word;
	bool is_held = false;
	int ready[2];

	(void)state;
	borrow_or_skip(child, child, &before);
	give_back(before);
	end_child(child);
	held.was_lent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	held.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(held.was_lent != MAP_FAILED && held.page != MAP_FAILED);
	assert_int_equal(pipe(ready), 0);
	child = fork_with_us();
	if (child == 0) {
		is_held = hold_page();
		if (is_held && pthread_create(&thread, NULL, hold_until_lent, NULL))
			abort();
		if (write(ready[1], &is_held, sizeof(is_held)) != sizeof(is_held))
			abort();
		sleep_long(NULL);
	}
	assert_int_equal(read(ready[0], &is_held, sizeof(is_held)), sizeof(is_held));
	if (!is_held) {
		end_child(child);
		limpet_skip("no userfaultfd is to be had");
	}
	before = limpet_priority_raise(LIMPET_PRIORITY_STOP);
	assert_int_equal(limpet_memory_read(child, (uintptr_t)held.page, &word, sizeof(word)), 0);
	limpet_priority_restore(before);
	assert_true(*held.was_lent);
	assert_no_thread_is_real_time();
	end_child(child);
	close(ready[0]);
	close(ready[1]);
	munmap(held.was_lent, 4096);
	munmap(held.page, 4096);
}

/* Of a process that has ended since, nobody has a turn; nor has one that ends meanwhile. */
static void test_thread_that_is_gone(void **state)
{
	struct limpet_priority before;
	pid_t child = start_child(true);

	(void)state;
	borrow_or_skip(child, child, &before);
	end_child(child);
	limpet_boost_return();
	lend(child);
	give_back(before);
	child = start_child(false);
	borrow_or_skip(child, child, &before);
	end_child(child);
	give_back(before);
}

/* One that takes long may wait for anything: it is on its own, whatever it does, and without a word
 * from us. */
static void test_not_for_long(void **state)
{
	struct limpet_priority before;

	(void)state;
	for (unsigned busy = 0; busy < 2; busy++) {
		const pid_t child = start_child(busy);
		const long own = priority_of(child);

		borrow_or_skip(child, child, &before);
		/* Nobody says anything: between two turns it has its own for a moment, too. */
		for (unsigned own_looks = 0; own_looks < 50;
		     own_looks = priority_of(child) == own ? own_looks + 1 : 0)
			usleep(100);
		/* Until it has had its share. */
		do {
			usleep(100);
			limpet_boost_return();
		} while (lend(child));
		assert_int_equal(priority_of(child), own);
		limpet_priority_restore(before);
		end_child(child);
	}
}

/* The kernel would count what was lent, and end the program for it. */
static void test_a_program_that_may_not_be_real_time(void **state)
{
	const struct rlimit none = {0, 0};
	const pid_t child = fork_with_us();
	struct limpet_priority before;
	pid_t other;

	(void)state;
	if (child == 0) {
		if (setrlimit(RLIMIT_RTTIME, &none) < 0)
			abort();
		for (;;)
			raise(SIGSTOP);
	}
	assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
	other = start_child(false);
	borrow_or_skip(other, other, &before);
	limpet_boost_return();
	assert_true(!lend(child));
	give_back(before);
	end_child(other);
	end_child(child);
}

/* What a limpet has lent that is stopped or killed ends with that. */
static void test_killed_while_it_lends(void **state)
{
	struct limpet_priority before;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		const pid_t child = start_child(i % 2);
		const long own = priority_of(child);
		bool lent;
		pid_t killed;

		/* Whether it is to be had. */
		borrow_or_skip(child, child, &before);
		give_back(before);
		killed = fork_with_us();
		if (killed == 0) {
			while (borrow(child, child, &before)) {
				usleep(50000);
				give_back(before);
			}
			_exit(0);
		}
		while (!(lent = priority_of(child) != own) && waitpid(killed, NULL, WNOHANG) == 0)
			usleep(100);
		if (!lent) {
			end_child(child);
			limpet_skip("there was no real-time priority any more");
		}
		kill(killed, i / 2 ? SIGSTOP : SIGKILL);
		assert_int_equal(waitpid(killed, NULL, WUNTRACED), killed);
		while (priority_of(child) != own)
			usleep(100);
		if (i / 2)
			end_child(killed);
		end_child(child);
	}
}

/* A program of a higher priority that never rests, on a processor of limpet's threads: limpet ends
 * all the same, before that. */
/* Whether no thread of this process has a real-time priority, and each may be on all of these. */
static bool are_released(const cpu_set_t *processors)
{
	pid_t *tids = NULL;
	const int count = limpet_proc_tasks(getpid(), &tids);
	bool all = count > 1;

	for (int i = 0; i < count; i++) {
		cpu_set_t own;

		all = all && (sched_getscheduler(tids[i]) & ~SCHED_RESET_ON_FORK) == SCHED_OTHER &&
		      sched_getaffinity(tids[i], sizeof(own), &own) == 0 &&
		      CPU_EQUAL(&own, processors);
	}
	free(tids);
	return all;
}

/* The kernel lets nobody clear SCHED_RESET_ON_FORK who may not raise priorities: as one may who has
 * a limit (RLIMIT_RTPRIO), and no capability. */
static void test_without_the_right(void **state)
{
	pid_t limpet;
	int status;

	(void)state;
	if (why_not())
		limpet_skip(why_not());
	limpet = fork_with_us();
	if (limpet == 0) {
		struct limpet_priority before = limpet_priority_raise(LIMPET_PRIORITY_STOP);
		cpu_set_t all;

		if (sched_getaffinity(0, sizeof(all), &all) < 0 || setuid(65534) < 0)
			abort();
		limpet_priority_restore(before);
		if (!are_released(&all))
			abort();
		_exit(0);
	}
	assert_int_equal(waitpid(limpet, &status, 0), limpet);
	assert_int_equal(status, 0);
}

static void test_ends_beside_a_spinner(void **state)
{
	const struct sched_param highest = {.sched_priority = 50};
	pid_t spinner, limpet;
	cpu_set_t all;
	int status;

	(void)state;
	if (why_not())
		limpet_skip(why_not());
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	spinner = fork_with_us();
	if (spinner == 0) {
		const uint64_t until_ns = limpet_monotonic_ns() + 20000000000;

		raise(SIGSTOP);
		while (limpet_monotonic_ns() < until_ns)
			;
		_exit(0);
	}
	assert_int_equal(waitpid(spinner, &status, WUNTRACED), spinner);
	limpet = fork_with_us();
	if (limpet == 0) {
		unsigned at = (unsigned)sched_getcpu();
		struct limpet_priority before;
		cpu_set_t one, two;

		/* Here and on the next one, where it spins. */
		CPU_ZERO(&two);
		CPU_SET(at, &two);
		sched_setaffinity(0, sizeof(two), &two);
		do
			at = (at + 1) % CPU_SETSIZE;
		while (!CPU_ISSET(at, &all));
		CPU_SET(at, &two);
		sched_setaffinity(0, sizeof(two), &two);
		CPU_ZERO(&one);
		CPU_SET(at, &one);
		if (sched_setaffinity(spinner, sizeof(one), &one) < 0 ||
		    sched_setscheduler(spinner, SCHED_RR, &highest) < 0)
			abort();
		kill(spinner, SIGCONT);
		before = limpet_priority_raise(LIMPET_PRIORITY_STOP);
		limpet_priority_restore(before);
		if (!are_released(&two))
			abort();
		_exit(0);
	}
	assert_int_equal(waitpid(limpet, &status, 0), limpet);
	assert_int_equal(status, 0);
	/* It spins yet. */
	assert_int_equal(waitpid(spinner, &status, WNOHANG), 0);
	end_child(spinner);
}

/* A forked child has no such threads, and makes its own. */
static void test_forked_child(void **state)
{
	const pid_t child = start_child(false);
	struct limpet_priority before;
	pid_t forked;
	int status;

	(void)state;
	borrow_or_skip(child, child, &before);
	give_back(before);
	forked = fork_with_us();
	if (forked == 0) {
		if (!borrow(child, child, &before))
			_exit(2);
		give_back(before);
		_exit(priority_of(child) < 0);
	}
	assert_int_equal(waitpid(forked, &status, 0), forked);
	assert_int_equal(status, 0);
	end_child(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lends_at_all),
		cmocka_unit_test(test_lends_later),
		cmocka_unit_test(test_returns_from_there),
		cmocka_unit_test(test_lends_and_takes_back),
		cmocka_unit_test(test_siblings_have_turns),
		cmocka_unit_test(test_while_limpet_waits_in_the_kernel),
		cmocka_unit_test(test_thread_that_is_gone),
		cmocka_unit_test(test_not_for_long),
		cmocka_unit_test(test_a_program_that_may_not_be_real_time),
		cmocka_unit_test(test_killed_while_it_lends),
		cmocka_unit_test(test_without_the_right),
		cmocka_unit_test(test_ends_beside_a_spinner),
		cmocka_unit_test(test_forked_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
