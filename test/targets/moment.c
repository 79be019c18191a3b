/* clang-format off */
/* moment: does one thing of consequence when it is told to, while its threads allocate.
 *
 * moment ACT says "ready PID"; at "act" it acts; "check" is answered by "well"; "quit" ends it with
 * 0. moment --second is what an exec leads to: it says "second PID", then does the same.
 *
 *	exec, exec-thread: executes itself, in the main thread or another
 *	exit, exit-thread: ends with status 7
 *	kill: SIGKILL
 *	fork: a child that lives on and allocates, "child PID"; "reap" ends it, "reaped"
 *	vfork: a child that takes 20 ms until it executes another program, "forked"
 *	close: a thread closes every descriptor but the first three, "closed"; so does one that can
 *	    take it at SIGUSR1, which no thread that limpet has hijacked can
 *	threads: every allocating thread ends, others begin, "threads"
 *	leader: the main thread ends; SIGTERM then ends the process with 0
 */
/* clang-format on */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "test/targets/target.h"

#define THREADS 3
#define STATUS 7

static char *self_path;
static const char *act;
static atomic_uint generation;
static pthread_t threads[THREADS];
static pid_t child;
static int child_pipe;

TARGET_FRAME static void moment_work(void)
{
	unsigned char *block = malloc(200);

	if (!block)
		target_broken("no memory");
	memset(block, 3, 200);
	block = realloc(block, 400);
	if (!block || block[199] != 3)
		target_broken("a block changed");
	free(block);
}

static void *worker_main(void *argument)
{
	const unsigned mine = (unsigned)(uintptr_t)argument;

	while (generation == mine) {
		const struct timespec nap = {0, 100000};

		for (unsigned i = 0; i < 20; i++)
			moment_work();
		nanosleep(&nap, NULL);
	}
	return NULL;
}

/* Told to which generation they belong: one that begins late might find the next one's number. */
static void begin_threads(void)
{
	void *number = (void *)(uintptr_t)generation;

	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, worker_main, number))
			target_broken("no thread");
}

static void end_threads(void)
{
	generation++;
	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_join(threads[i], NULL))
			target_broken("a thread is lost");
}

static void become_second(void)
{
	char *argv[] = {self_path, "--second", NULL};

	execv(self_path, argv);
	target_broken("exec: %s", strerror(errno));
}

static void expect_good_end(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		target_broken("lost a child");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		target_broken("a child ended with status %#x", status);
}

static void make_child(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		target_broken("pipe: %s", strerror(errno));
	child = fork();
	if (child < 0)
		target_broken("fork: %s", strerror(errno));
	if (child == 0) {
		const struct timespec nap = {0, 100000};
		char c;

		close(ends[1]);
		while (read(ends[0], &c, 1) < 0) {
			moment_work();
			nanosleep(&nap, NULL);
		}
		_exit(0);
	}
	close(ends[0]);
	child_pipe = ends[1];
	target_say("child %d", child);
}

static void make_vfork_child(void)
{
	const struct timespec nap = {0, 20000000};
	const pid_t pid = vfork();

	if (pid < 0)
		target_broken("vfork: %s", strerror(errno));
	if (pid == 0) {
		nanosleep(&nap, NULL);
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	expect_good_end(pid);
	target_say("forked");
}

static void close_all(void)
{
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
}

static bool acts_in_thread(void)
{
	return !strcmp(act, "exec-thread") || !strcmp(act, "exit-thread") || !strcmp(act, "close");
}

static void do_it(void)
{
	if (!strncmp(act, "exec", 4)) {
		become_second();
	} else if (!strncmp(act, "exit", 4)) {
		exit(STATUS);
	} else if (!strcmp(act, "kill")) {
		kill(getpid(), SIGKILL);
	} else if (!strcmp(act, "fork")) {
		make_child();
	} else if (!strcmp(act, "vfork")) {
		make_vfork_child();
	} else if (!strcmp(act, "close")) {
		close_all();
		target_say("closed");
	} else if (!strcmp(act, "threads")) {
		end_threads();
		begin_threads();
		target_say("threads");
	} else if (!strcmp(act, "leader")) {
		pthread_exit(NULL);
	} else {
		target_broken("no such act: %s", act);
	}
}

static void *actor_main(void *argument)
{
	do_it();
	return argument;
}

static void on_user(int number)
{
	const int error = errno;

	(void)number;
	close_all();
	errno = error;
}

static void on_term(int number)
{
	(void)number;
	_exit(0);
}

int main(int argc, char **argv)
{
	const bool second = argc == 2 && !strcmp(argv[1], "--second");
	char line[256];
	unsigned long n;
	pthread_t actor;

	if (argc != 2)
		target_broken("usage: moment ACT");
	self_path = argv[0];
	act = argv[1];
	signal(SIGTERM, on_term);
	if (!strcmp(act, "close"))
		signal(SIGUSR1, on_user);
	begin_threads();
	target_say("%s %d", second ? "second" : "ready", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "act", &n)) {
			if (!acts_in_thread())
				do_it();
			else if (pthread_create(&actor, NULL, actor_main, NULL))
				target_broken("no thread");
		} else if (target_word(line, "check", &n)) {
			target_say("well");
		} else if (target_word(line, "reap", &n)) {
			close(child_pipe);
			expect_good_end(child);
			target_say("reaped");
		} else if (target_word(line, "quit", &n)) {
			break;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	end_threads();
	return 0;
}
