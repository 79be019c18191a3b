/* exiter: ends in the way it is told to, while another thread allocates.
 *
 * Commands: "allocate N": N blocks of 100 bytes that stay, in exiter_keep; "return N", "exit N",
 * "_exit N", "exit-thread N" (exit() by another thread); "abort"; "kill" (SIGKILL to itself right
 * after N more blocks); "leader" (the main thread ends, the other goes on until SIGTERM). */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "test/targets/target.h"

static atomic_int exit_status = -1;
static void *kept[1 << 20];
static unsigned kept_count;

TARGET_FRAME static void exiter_keep(void)
{
	void *p = malloc(100);

	if (!p || kept_count == sizeof(kept) / sizeof(kept[0]))
		target_broken("no memory");
	memset(p, 0x44, 100);
	kept[kept_count++] = p;
}

TARGET_FRAME static void exiter_churn(void)
{
	char *p = malloc(64);

	if (!p)
		target_broken("no memory");
	memset(p, 2, 64);
	free(p);
}

static void *worker_main(void *argument)
{
	for (;;) {
		struct timespec nap = {0, 300000};

		exiter_churn();
		if (exit_status >= 0)
			exit(exit_status);
		nanosleep(&nap, NULL);
	}
	return argument;
}

static void on_term(int number)
{
	(void)number;
	_exit(0);
}

int main(void)
{
	char line[256];
	unsigned long n;
	pthread_t thread;

	signal(SIGTERM, on_term);
	if (pthread_create(&thread, NULL, worker_main, NULL))
		target_broken("no thread");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "allocate", &n)) {
			for (unsigned long i = 0; i < n; i++)
				exiter_keep();
			target_say("allocated");
		} else if (target_word(line, "return", &n)) {
			return (int)n;
		} else if (target_word(line, "exit-thread", &n)) {
			exit_status = (int)n;
			for (;;)
				pause();
		} else if (target_word(line, "exit", &n)) {
			exit((int)n);
		} else if (target_word(line, "_exit", &n)) {
			_exit((int)n);
		} else if (target_word(line, "abort", &n)) {
			abort();
		} else if (target_word(line, "kill", &n)) {
			for (unsigned long i = 0; i < n; i++)
				exiter_keep();
			kill(getpid(), SIGKILL);
		} else if (target_word(line, "leader", &n)) {
			target_say("leaving");
			pthread_exit(NULL);
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
