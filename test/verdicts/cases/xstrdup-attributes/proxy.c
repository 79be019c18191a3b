/* A proxy that keeps attributes of its sessions. Setting one again loses the text that it had. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SESSIONS = 64, ATTRIBUTES = 4, LOG_LINES = 512 };

struct attribute {
	const char *name;
	char *value;
};

struct session {
	struct attribute attributes[ATTRIBUTES];
};

static struct session sessions[SESSIONS];
static char *log_ring[LOG_LINES];
static size_t lost_bytes, lost_blocks;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static __attribute__((noinline)) void *xmalloc(size_t size)
{
	void *block = malloc(size);

	if (!block)
		abort();
	return block;
}

static __attribute__((noinline)) char *xstrdup(const char *text)
{
	size_t size = strlen(text) + 1;

	return memcpy(xmalloc(size), text, size);
}

static __attribute__((noinline)) void session_set_attribute(struct session *session, int index,
							    const char *name, const char *value)
{
	if (session->attributes[index].value) { /* and it is not freed */
		lost_bytes += strlen(session->attributes[index].value) + 1;
		lost_blocks++;
	}
	session->attributes[index].name = name;
	session->attributes[index].value = xstrdup(value);
}

static __attribute__((noinline)) void log_request(const char *line)
{
	static unsigned next;
	char **slot = &log_ring[next++ % LOG_LINES];

	free(*slot);
	*slot = xstrdup(line);
}

static __attribute__((noinline)) void handle_request(unsigned number)
{
	char line[400];
	char *copy, *rest, *field;
	int index = 0;

	snprintf(line, sizeof(line), "user-%06u-%0180u;agent/%u.%u-%0140u;en-GB,en;q=0.%u", number,
		 number, number % 90, number % 10, number, number % 9);
	copy = xstrdup(line);
	for (field = strtok_r(copy, ";", &rest); field && index < ATTRIBUTES;
	     field = strtok_r(NULL, ";", &rest), index++)
		session_set_attribute(&sessions[number % SESSIONS], index, index ? "agent" : "user",
				      field);
	free(copy);
	log_request(line);
}

int main(void)
{
	struct timespec next;

	signal(SIGTERM, end);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 0; !ended; number++) {
		handle_request(number);
		if (number == 1000) {
			puts("ready");
			fflush(stdout);
		}
		next.tv_nsec += 1000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	fprintf(stderr, "lost %zu bytes in %zu blocks\n", lost_bytes, lost_blocks);
	return 0;
}
