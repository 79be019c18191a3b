#include "cli/demo_server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* A frame of its own in every stack, under the name that is here. */
#define FRAME __attribute__((noinline, used))

enum { ANSWERS = 256, REQUESTS_A_TICK = 20, REQUESTS_A_SESSION = 8 };

struct session {
	struct session *next;
	char state[8000];
};

static struct session *sessions;
static char *answers[ANSWERS];

FRAME static char *parse_request(unsigned number)
{
	char *request = malloc(512);

	if (request)
		snprintf(request, 512, "GET /items/%u", number);
	return request;
}

/* The leak: nothing ends a session. */
FRAME static void open_session(unsigned number)
{
	struct session *session = malloc(sizeof(*session));

	if (!session)
		return;
	memset(session->state, (int)number, sizeof(session->state));
	session->next = sessions;
	sessions = session;
}

/* A cache grows until it is full: no leak. */
FRAME static void cache_answer(unsigned number)
{
	char **answer = &answers[number % ANSWERS];

	free(*answer);
	*answer = calloc(1, 1024);
}

FRAME static void handle_request(unsigned number)
{
	char *request = parse_request(number);

	if (number % REQUESTS_A_SESSION == 0)
		open_session(number);
	cache_answer(number);
	free(request);
}

FRAME static void serve(void)
{
	const struct timespec tick = {.tv_nsec = 10 * 1000 * 1000};

	for (unsigned number = 0;; number += REQUESTS_A_TICK) {
		for (unsigned i = 0; i < REQUESTS_A_TICK; i++)
			handle_request(number + i);
		nanosleep(&tick, NULL);
	}
}

pid_t limpet_demo_server_start(pid_t capturer)
{
	const pid_t parent = getpid();
	pid_t pid = fork();

	if (pid)
		return pid < 0 ? -errno : pid;
	/* Ctrl-C is for the capture. */
	(void)setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	prctl(PR_SET_NAME, "demo");
	prctl(PR_SET_PTRACER, (unsigned long)capturer);
	serve();
	_exit(EXIT_SUCCESS);
}
