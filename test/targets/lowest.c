/* lowest: POSIX promises the lowest free number to whoever opens a file. A thread opens and closes
 * one all the while; others sleep.
 *
 * Commands: "opened": answers how often it did, and how often it got another number; "quit". */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "test/targets/target.h"

static atomic_ulong opened, wrong;
static atomic_bool over;

static void *sleep_on(void *nothing)
{
	for (;;)
		pause();
	return nothing;
}

static void *open_on(void *nothing)
{
	const int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(lowest);
	while (!over) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		wrong += fd != lowest;
		close(fd);
		opened++;
	}
	return nothing;
}

int main(void)
{
	pthread_t opener, sleeper;
	char line[256];
	unsigned long n;

	for (int i = 0; i < 3; i++)
		if (pthread_create(&sleeper, NULL, sleep_on, NULL))
			target_broken("no thread");
	if (pthread_create(&opener, NULL, open_on, NULL))
		target_broken("no thread");
	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "opened", &n))
			target_say("opened %lu wrong %lu", (unsigned long)opened,
				   (unsigned long)wrong);
		else if (target_word(line, "quit", &n))
			break;
		else
			target_broken("what is '%s'?", line);
	}
	over = true;
	pthread_join(opener, NULL);
	return 0;
}
