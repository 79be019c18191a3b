/* forker: makes children in every way, from a program whose threads allocate all the while.
 *
 * Commands: "fork N": N children that allocate, check and exit; "vfork N" and "spawn N": N runs of
 * /bin/true; "vwork N": the same, with ten allocations first, in forker_vwork, and
 * one that is never freed, in the memory of their parent; "bare N": children that close every
 * descriptor before they allocate; "keep": a child that lives on, answered with its pid, and works
 * until "reap"; "keep 1": the same, forked in a signal handler, which it never leaves; "brood N":
 * forks children all the while, up to N, "brooding"; they sleep until "hatch", when they work and
 * exit, "hatched N"; "quit". */
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test/targets/target.h"

static atomic_bool over;
static pid_t kept = -1;
static int kept_pipe = -1;
static int brood_pipe[2];
static atomic_bool brooding;
static unsigned brood_limit, brood_count;
static pthread_t brooder;

TARGET_FRAME static void forker_work(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		size_t bytes = 24 + i % 500;
		unsigned char *p = malloc(bytes);

		if (!p)
			target_broken("no memory");
		memset(p, (int)i, bytes);
		p = realloc(p, bytes * 2);
		if (!p || p[bytes - 1] != (unsigned char)i)
			target_broken("a block changed");
		free(p);
	}
}

static void *worker_main(void *argument)
{
	while (!over) {
		struct timespec nap = {0, 200000};

		forker_work(50);
		nanosleep(&nap, NULL);
	}
	return argument;
}

static void expect_good_end(pid_t pid)
{
	int status;

	const pid_t ended = waitpid(pid, &status, 0);

	if (ended < 0 || (pid > 0 && ended != pid))
		target_broken("lost a child");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		target_broken("a child ended with status %#x", status);
}

static void fork_child(bool bare)
{
	pid_t pid = fork();

	if (pid < 0)
		target_broken("fork: %s", strerror(errno));
	if (pid == 0) {
		if (bare)
			syscall(SYS_close_range, 0, ~0u, 0);
		forker_work(2000);
		_exit(0);
	}
	expect_good_end(pid);
}

static void vfork_child(void)
{
	pid_t pid = vfork();

	if (pid < 0)
		target_broken("vfork: %s", strerror(errno));
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	expect_good_end(pid);
}

/* Whose the memory is, whose stack it runs on, and which thread libc takes it for. */
TARGET_FRAME static void forker_vwork(void)
{
	const unsigned count = 10;
	void *volatile block;

	for (unsigned i = 0; i <= count; i++) {
		block = malloc(333);
		if (!block)
			target_broken("no memory");
		if (i < count)
			free(block);
	}
}

static void vwork_child(void)
{
	pid_t pid = vfork();

	if (pid < 0)
		target_broken("vfork: %s", strerror(errno));
	if (pid == 0) {
		forker_vwork();
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	expect_good_end(pid);
}

static void spawn_child(void)
{
	char *argv[] = {"true", NULL};
	pid_t pid;

	if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, NULL))
		target_broken("posix_spawn failed");
	expect_good_end(pid);
}

static void keep_child(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		target_broken("pipe: %s", strerror(errno));
	kept = fork();
	if (kept < 0)
		target_broken("fork: %s", strerror(errno));
	if (kept == 0) {
		char c;

		close(ends[1]);
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
		while (read(ends[0], &c, 1) < 0)
			forker_work(100);
		_exit(0);
	}
	close(ends[0]);
	kept_pipe = ends[1];
	target_say("kept %d", kept);
}

static void keep_on_signal(int number)
{
	(void)number;
	keep_child();
}

static int count_module(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)info;
	(void)bytes;
	++*(unsigned *)context;
	return 0;
}

static void *brooder_main(void *argument)
{
	unsigned modules = 0;
	const struct timespec nap = {0, 200000};

	while (brooding && brood_count < brood_limit) {
		const pid_t pid = fork();

		if (pid < 0)
			target_broken("fork: %s", strerror(errno));
		if (pid == 0) {
			char c;

			close(brood_pipe[1]);
			while (read(brood_pipe[0], &c, 1) < 0)
				;
			/* It waits for good if the loader's lock was inherited held. */
			alarm(20 * target_patience());
			dl_iterate_phdr(count_module, &modules);
			forker_work(100);
			_exit(0);
		}
		brood_count++;
		nanosleep(&nap, NULL);
	}
	return argument;
}

static void begin_brood(unsigned limit)
{
	if (pipe2(brood_pipe, O_CLOEXEC))
		target_broken("pipe: %s", strerror(errno));
	brooding = true;
	brood_limit = limit;
	brood_count = 0;
	if (pthread_create(&brooder, NULL, brooder_main, NULL))
		target_broken("no thread");
	target_say("brooding");
}

static void end_brood(void)
{
	brooding = false;
	pthread_join(brooder, NULL);
	close(brood_pipe[0]);
	close(brood_pipe[1]);
	for (unsigned i = 0; i < brood_count; i++)
		expect_good_end(-1);
	target_say("hatched %u", brood_count);
}

int main(void)
{
	char line[256];
	unsigned long n;
	pthread_t threads[3];

	signal(SIGUSR1, keep_on_signal);
	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, worker_main, NULL))
			target_broken("no thread");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "fork", &n)) {
			for (unsigned long i = 0; i < n; i++)
				fork_child(false);
			target_say("forked");
		} else if (target_word(line, "bare", &n)) {
			for (unsigned long i = 0; i < n; i++)
				fork_child(true);
			target_say("forked");
		} else if (target_word(line, "vfork", &n)) {
			for (unsigned long i = 0; i < n; i++)
				vfork_child();
			target_say("forked");
		} else if (target_word(line, "vwork", &n)) {
			for (unsigned long i = 0; i < n; i++)
				vwork_child();
			target_say("forked");
		} else if (target_word(line, "spawn", &n)) {
			for (unsigned long i = 0; i < n; i++)
				spawn_child();
			target_say("forked");
		} else if (target_word(line, "brood", &n)) {
			begin_brood((unsigned)n);
		} else if (target_word(line, "hatch", &n)) {
			end_brood();
		} else if (target_word(line, "keep", &n)) {
			if (n)
				raise(SIGUSR1);
			else
				keep_child();
		} else if (target_word(line, "reap", &n)) {
			close(kept_pipe);
			expect_good_end(kept);
			target_say("reaped");
		} else if (target_word(line, "quit", &n)) {
			break;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
