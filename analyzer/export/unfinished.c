#include "analyzer/export/unfinished.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/err.h"

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
static const char *volatile paths[4];

/* In a signal handler. */
static void unlink_all(int number)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(paths); i++)
		if (paths[i])
			unlink(paths[i]);
	/* SA_RESETHAND has restored the default action. */
	raise(number);
}

static void watch_signals(void)
{
	static bool done;

	for (size_t i = 0; !done && i < LIMPET_COUNT_OF(numbers); i++) {
		struct sigaction action = {.sa_handler = unlink_all, .sa_flags = (int)SA_RESETHAND};
		struct sigaction before;

		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
			sigaction(numbers[i], &action, NULL);
	}
	done = true;
}

static void add(const char *path)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(paths); i++)
		if (!paths[i]) {
			paths[i] = path;
			return;
		}
}

int limpet_unfinished_open(char *path)
{
	sigset_t ours, before;
	int fd, error;

	sigemptyset(&ours);
	for (size_t i = 0; i < LIMPET_COUNT_OF(numbers); i++)
		sigaddset(&ours, numbers[i]);
	watch_signals();
	/* No signal between creating the file and noting it. */
	sigprocmask(SIG_BLOCK, &ours, &before);
	fd = mkostemp(path, O_CLOEXEC);
	error = fd < 0 ? -errno : 0;
	if (!error)
		add(path);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return error ? error : fd;
}

void limpet_unfinished_drop(const char *path)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(paths); i++)
		if (paths[i] == path)
			paths[i] = NULL;
}
