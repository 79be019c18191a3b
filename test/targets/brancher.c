/* brancher THREADS: forks in a signal handler that interrupts malloc and free, or the hooks around
 * them; parent and child return into what the handler interrupted. The child then allocates some
 * more, and exits.
 *
 * With 0 threads the main thread works, and the handler of a timer calls fork(). With more, each
 * works in turns, in which a signal comes to one of them; its handler forks in a way that takes no
 * lock: _Fork(), system calls, vfork() whose child ends at once.
 *
 * Commands: "branch N": N forks, answered with "branched PAIRS", the pairs of calls in
 * brancher_work so far; "go": forks until "halt", answered likewise; "quit". */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "test/targets/target.h"

enum { THREADS = 4, TURN_PAIRS = 1000, CHILD_PAIRS = 200 };

static pthread_t threads[THREADS];
static unsigned thread_count;
static atomic_uint turn, at_work, done;
static atomic_int forked; /* the child's pid; 0: none yet */
static unsigned kind;
static volatile sig_atomic_t in_child;
static atomic_ulong pairs;
static uint64_t seed = 1;

TARGET_FRAME static void brancher_work(size_t bytes)
{
	unsigned char *volatile block = malloc(bytes);

	if (!block)
		target_broken("no memory");
	block[0] = (unsigned char)bytes;
	block[bytes - 1] = (unsigned char)bytes;
	if (block[0] != (unsigned char)bytes)
		target_broken("a block changed");
	free(block);
	TARGET_KEEP_FRAME();
}

static void work_a_turn(void)
{
	unsigned left = CHILD_PAIRS;

	for (unsigned i = 0; i < TURN_PAIRS; i++) {
		brancher_work(16 + i % 700);
		while (in_child) {
			brancher_work(16 + left % 700);
			if (!--left)
				_exit(0);
		}
	}
	pairs += TURN_PAIRS;
}

static pid_t fork_by_instruction(void)
{
	long answer = SYS_fork;

	__asm__ volatile("syscall" : "+a"(answer)::"rcx", "r11", "memory");
	return (pid_t)answer;
}

static pid_t fork_and_end(void)
{
	const pid_t pid = vfork();

	if (!pid)
		_exit(0);
	return pid;
}

static pid_t fork_somehow(void)
{
	if (!thread_count)
		return fork();
	switch (kind++ % 5) {
	case 0:
		return _Fork();
	case 1:
		return (pid_t)syscall(SYS_fork);
	case 2:
		return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	case 3:
		return fork_by_instruction();
	default:
		return fork_and_end();
	}
}

static void on_signal(int number)
{
	const int error = errno;
	const pid_t pid = fork_somehow();

	(void)number;
	if (pid < 0)
		target_broken("fork: %s", strerror(errno));
	if (pid)
		forked = pid;
	else
		in_child = 1;
	errno = error;
}

static void *thread_main(void *argument)
{
	for (unsigned seen = 0;; seen++) {
		while (turn == seen && !in_child)
			sched_yield();
		at_work++;
		work_a_turn();
		done++;
	}
	return argument;
}

static void expect_good_end(void)
{
	int status;

	if (waitpid(forked, &status, 0) != forked)
		target_broken("lost a child");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		target_broken("a child ended with status %#x", status);
	forked = 0;
}

static void branch_alone(void)
{
	const struct itimerval soon = {.it_value.tv_usec =
					       1 + (suseconds_t)(target_random(&seed) % 100)};

	if (setitimer(ITIMER_REAL, &soon, NULL))
		target_broken("setitimer: %s", strerror(errno));
	while (!forked)
		work_a_turn();
	expect_good_end();
}

static void branch(void)
{
	const unsigned first = target_random(&seed) % 3000;

	if (!thread_count) {
		branch_alone();
		return;
	}
	at_work = done = 0;
	turn++;
	while (!at_work)
		;
	for (volatile unsigned i = 0; i < first; i++)
		;
	pthread_kill(threads[target_random(&seed) % thread_count], SIGALRM);
	while (!forked)
		sched_yield();
	expect_good_end();
	while (done < thread_count)
		sched_yield();
}

static bool is_told_something(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) != 0;
}

int main(int argc, char **argv)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	char line[256];
	unsigned long n;

	thread_count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	if (thread_count > THREADS || sigaction(SIGALRM, &action, NULL))
		target_broken("cannot begin");
	for (unsigned i = 0; i < thread_count; i++)
		if (pthread_create(&threads[i], NULL, thread_main, NULL))
			target_broken("no thread");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "branch", &n)) {
			while (n--)
				branch();
			target_say("branched %lu", pairs);
		} else if (target_word(line, "go", &n)) {
			target_say("going");
			while (!is_told_something())
				branch();
		} else if (target_word(line, "halt", &n)) {
			target_say("branched %lu", pairs);
		} else if (target_word(line, "quit", &n)) {
			break;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
