/* execer: becomes another program on command, by its main thread or by another one.
 *
 *	execer            allocates all the while; "exec" or "exec-thread" executes itself as
 *                  "execer --second"; "close" closes all descriptors but the first three;
 *                  "undumpable" makes it so; "load" loads a library
 *	execer --second   says "second PID" and works on; "quit" ends both with 0 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "test/targets/target.h"

static atomic_bool exec_now;
static char *self_path;

TARGET_FRAME static void execer_work(void)
{
	char *p = malloc(100);

	if (!p)
		target_broken("no memory");
	memset(p, 1, 100);
	free(p);
}

static void become_second(void)
{
	char *argv[] = {self_path, "--second", NULL};

	execv(self_path, argv);
	target_broken("exec: %s", strerror(errno));
}

static void *worker_main(void *argument)
{
	for (;;) {
		struct timespec nap = {0, 500000};

		execer_work();
		if (exec_now)
			become_second();
		nanosleep(&nap, NULL);
	}
	return argument;
}

int main(int argc, char **argv)
{
	char line[256];
	unsigned long n;
	pthread_t thread;
	bool second = argc > 1 && !strcmp(argv[1], "--second");

	self_path = argv[0];
	if (pthread_create(&thread, NULL, worker_main, NULL))
		target_broken("no thread");
	target_say("%s %d", second ? "second" : "ready", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "exec-thread", &n))
			exec_now = true;
		else if (target_word(line, "exec", &n))
			become_second();
		else if (target_word(line, "close", &n))
			target_say("closed %d", close_range(3, ~0u, 0));
		else if (target_word(line, "load", &n))
			target_say("loaded %d", dlopen("libresolv.so.2", RTLD_NOW) != NULL);
		else if (target_word(line, "undumpable", &n))
			target_say("undumpable %d", prctl(PR_SET_DUMPABLE, 0));
		else if (target_word(line, "quit", &n))
			return 0;
		else
			target_broken("unknown command '%s'", line);
	}
	return 0;
}
