/* rounds PID COUNT [HOLD_MS]: attaches to a process and detaches, COUNT times, without recording,
 * and says how long the stops were. Ends with status 1 at the first round that fails. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "injector/ptrace/tracer.h"
#include "injector/session/session.h"

static int compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static void print_times(const char *what, uint64_t *times, int count)
{
	qsort(times, (size_t)count, sizeof(*times), compare);
	printf("%s stop: p50 %lu us, p99 %lu us, max %lu us\n", what,
	       (unsigned long)times[count / 2] / 1000,
	       (unsigned long)times[count * 99 / 100] / 1000,
	       (unsigned long)times[count - 1] / 1000);
}

int main(int argc, char **argv)
{
	struct limpet_capture_config options = {.agent_memory_bytes = 64u << 20,
						.attach_timeout_ns = 600000000000u};
	pid_t pid = argc > 2 ? atoi(argv[1]) : 0;
	int count = argc > 2 ? atoi(argv[2]) : 0, dormant = 0;
	long hold_ms = argc > 3 ? atol(argv[3]) : 2;
	struct limpet_tracer *tracer;
	uint64_t *attach, *detach, *took;
	unsigned attempts = 0, slots = 0, peeked = 0, stopped = 0, hook_pointers = 0;

	if (pid <= 0 || count <= 0) {
		fprintf(stderr, "usage: rounds PID COUNT [HOLD_MS]\n");
		return 2;
	}
	if (limpet_tracer_new(&tracer) < 0)
		return 1;
	attach = calloc((size_t)count, sizeof(*attach));
	detach = calloc((size_t)count, sizeof(*detach));
	took = calloc((size_t)count, sizeof(*took));
	for (int i = 0; i < count; i++) {
		struct limpet_target target;
		struct limpet_session *session;
		const struct limpet_session_stats *stats;
		struct limpet_err err = {0};
		struct timespec hold = {hold_ms / 1000, hold_ms % 1000 * 1000000};
		uint64_t begun = limpet_monotonic_ns();
		int error = limpet_target_open(pid, &target, &err);

		if (!error)
			error = limpet_session_prepare(tracer, &target, &options, NULL, &session,
						       &err);
		if (!error)
			error = limpet_session_attach(session, NULL, &err);
		if (error) {
			printf("round %d: attach: %s (%d)\n", i, err.message, error);
			return 1;
		}
		took[i] = limpet_monotonic_ns() - begun;
		nanosleep(&hold, NULL);
		error = limpet_session_detach(session, &err);
		stats = limpet_session_stats(session);
		attach[i] = stats->attach_stop_ns;
		detach[i] = stats->detach_stop_ns;
		attempts += stats->attach_attempts;
		slots = stats->slots_patched;
		peeked += stats->quiesce.peeked;
		stopped += stats->quiesce.stopped;
		hook_pointers += stats->hook_pointers.found;
		limpet_session_free(session);
		if (error) {
			dormant++;
			printf("round %d: detach: %s (%d)\n", i, err.message, error);
			error = limpet_session_cleanup(tracer, &target, options.attach_timeout_ns,
						       true, &err);
			if (error < 0) {
				printf("round %d: cleanup: %s (%d)\n", i, err.message, error);
				return 1;
			}
		}
		limpet_target_close(&target);
	}
	printf("%d rounds, %d dormant and cleaned up, %u slots, %.2f stops to find a thread, "
	       "threads seen: %u peeked, %u stopped, hook pointers %u\n",
	       count, dormant, slots, (double)attempts / count, peeked, stopped, hook_pointers);
	print_times("attach", attach, count);
	print_times("detach", detach, count);
	print_times("attach in all", took, count);
	return dormant ? 3 : 0;
}
