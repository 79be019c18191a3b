/* Where what limpet maps in a program may lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "injector/proc/memfd.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/tracer.h"
#include "injector/session/session.h"

#define LARGE (UINT64_C(8) << 30)

static struct limpet_tracer *tracer;
/* What the next lists of mappings do not show: as if another thread had mapped it since. */
static uint64_t hidden;
static unsigned makers, hidden_from_makers;

int __real_limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret);
int __wrap_limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret);
int __wrap_limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret)
{
	const int error = __real_limpet_proc_maps_read(pid, ret);
	size_t kept = 0;

	if (error || !hidden || makers >= hidden_from_makers)
		return error;
	for (size_t i = 0; i < ret->count; i++)
		if (hidden < ret->list[i].start || hidden >= ret->list[i].end)
			ret->list[kept++] = ret->list[i];
	ret->count = kept;
	return 0;
}

static void count_makers(const struct limpet_step *step)
{
	makers += step->kind == LIMPET_STEP_OWN_TABLE;
}

/* A program with a mapping where a hole would be. */
static pid_t begin_program(void)
{
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		void *memory = mmap(NULL, LARGE, PROT_NONE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (write(ready[1], &memory, sizeof(memory)) != sizeof(memory))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &hidden, sizeof(hidden)), sizeof(hidden));
	close(ready[0]);
	close(ready[1]);
	assert_true((void *)(uintptr_t)hidden != MAP_FAILED);
	return pid;
}

static bool has_ours(pid_t pid)
{
	struct limpet_maps maps;
	bool found = false;

	assert_int_equal(__real_limpet_proc_maps_read(pid, &maps), 0);
	for (size_t i = 0; i < maps.count; i++)
		found |= limpet_memfd_is_ours(maps.list[i].path);
	limpet_proc_maps_done(&maps);
	return found;
}

static void assert_large_is_whole(pid_t pid)
{
	struct limpet_map map;

	assert_int_equal(limpet_proc_maps_at(pid, &hidden, 1, &map), 0);
	assert_true(map.start <= hidden && map.end >= hidden + LARGE);
	assert_int_equal(map.inode, 0);
}

/* Attaches and detaches; until so many makers were made, lists do not show the mapping. */
static int capture(pid_t pid, unsigned until_makers)
{
	static const struct limpet_step_watcher watcher = {.begin = count_makers};
	const struct limpet_capture_config config = {.agent_memory_bytes = 64u << 20,
						     .attach_timeout_ns = UINT64_C(60000000000)};
	struct limpet_session *session;
	struct limpet_target target;
	int error;

	makers = 0;
	hidden_from_makers = until_makers;
	assert_int_equal(limpet_target_open(pid, &target, NULL), 0);
	assert_int_equal(limpet_session_prepare(tracer, &target, &config, NULL, &session, NULL), 0);
	limpet_step_watch(&watcher);
	error = limpet_session_attach(session, NULL, NULL);
	limpet_step_watch(NULL);
	assert_large_is_whole(pid);
	if (!error) {
		assert_true(has_ours(pid));
		assert_int_equal(limpet_session_detach(session, NULL), 0);
	}
	assert_large_is_whole(pid);
	assert_false(has_ours(pid));
	limpet_session_free(session);
	limpet_target_close(&target);
	return error;
}

static void test_a_place_is_taken(void **state)
{
	const pid_t pid = begin_program();
	int status;

	(void)state;
	assert_int_equal(limpet_tracer_new(&tracer), 0);
	assert_int_equal(capture(pid, 0), 0);
	assert_int_equal(makers, 1);
	assert_int_equal(capture(pid, 1), 0);
	assert_int_equal(makers, 2);
	/* And again, each time. */
	assert_int_equal(capture(pid, UINT32_MAX), -EEXIST);
	assert_int_equal(makers, 4);
	assert_int_equal(capture(pid, 0), 0);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_place_is_taken)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
