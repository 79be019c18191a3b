/* parted: a main thread that allocates all the while, and a second one that listens.
 *
 * Commands, done by the second thread: "unshare": takes a table of descriptors of its own;
 * "narrow": the same, with all but the first three closed in it; "take N": N allocations;
 * "descriptors": how many both tables hold; "quit". */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "test/targets/target.h"

static atomic_bool over;

TARGET_FRAME static void take(unsigned long count)
{
	while (count--) {
		void *volatile block = malloc(333);

		if (!block)
			target_broken("no memory");
		free(block);
	}
}

/* Without opening one. */
static unsigned count_descriptors(pid_t tid)
{
	const unsigned limit = 1024;
	char path[64], link[8];
	unsigned count = 0;

	for (unsigned fd = 0; fd < limit; fd++) {
		snprintf(path, sizeof(path), "/proc/self/task/%d/fd/%u", (int)tid, fd);
		count += readlink(path, link, sizeof(link)) > 0;
	}
	return count;
}

static void *listen(void *argument)
{
	const unsigned own_table = 2; /* CLOSE_RANGE_UNSHARE */
	char line[128];
	unsigned long n;

	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "unshare", &n)) {
			if (unshare(CLONE_FILES))
				target_broken("unshare: %s", strerror(errno));
			target_say("apart");
		} else if (target_word(line, "narrow", &n)) {
			if (syscall(SYS_close_range, 3, ~0u, own_table))
				target_broken("close_range: %s", strerror(errno));
			target_say("apart");
		} else if (target_word(line, "take", &n)) {
			take(n);
			target_say("taken");
		} else if (target_word(line, "descriptors", &n)) {
			target_say("descriptors %u %u", count_descriptors(getpid()),
				   count_descriptors(gettid()));
		} else if (target_word(line, "quit", &n)) {
			break;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	over = true;
	return argument;
}

int main(void)
{
	pthread_t second;

	if (pthread_create(&second, NULL, listen, NULL))
		target_broken("no thread");
	while (!over)
		;
	pthread_join(second, NULL);
	return 0;
}
