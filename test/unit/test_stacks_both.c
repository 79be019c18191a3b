/* libunwind and limpet's own walker find the same frames, of programs that stand anywhere: every
 * shape of frame (test/targets/shapes), Rust, linked by LLD, Go, static programs of glibc's and
 * musl's.
 * STACK_ROUNDS: how often each thread of each is looked at (`make torture`: 2,000). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "injector/elf/modules.h"
#include "injector/ptrace/tracee.h"
#include "injector/stacks/stack_copier.h"
#include "injector/stacks/stack_scene.h"
#include "test/unit/target_of.h"

#define ROUNDS 5u

struct program {
	pid_t pid;
	int in, out;
};

static void hear(const struct program *program)
{
	char byte = 0;

	while (byte != '\n')
		assert_int_equal(read(program->out, &byte, 1), 1);
}

static void tell(const struct program *program, const char *line)
{
	assert_int_equal(write(program->in, line, strlen(line)), strlen(line));
	hear(program);
}

static void start(const char *name, struct program *ret)
{
	char path[64];
	int in[2], out[2];

	snprintf(path, sizeof(path), "build/targets/%s", name);
	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	ret->pid = fork();
	assert_true(ret->pid >= 0);
	if (ret->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		close(in[1]);
		execl(path, path, NULL);
		_exit(1);
	}
	close(in[0]);
	close(out[1]);
	ret->in = in[1];
	ret->out = out[0];
	hear(ret);
	tell(ret, "go\n");
}

static void finish(const struct program *program)
{
	close(program->in);
	kill(program->pid, SIGKILL);
	assert_int_equal(waitpid(program->pid, NULL, 0), program->pid);
	close(program->out);
}

static unsigned compared, longer; /* stacks; those of which libunwind alone found all */

static void compare(struct limpet_stack_scene *scene, const struct limpet_stack_copy *copy)
{
	static struct limpet_unwound both, walker;

	scene->without_libunwind = true;
	assert_int_equal(limpet_stack_unwind(scene, copy, &walker), 0);
	scene->without_libunwind = false;
	assert_int_equal(limpet_stack_unwind(scene, copy, &both), 0);
	/* The walker knows fewer registers. */
	if (walker.end != LIMPET_WALK_COMPLETE) {
		longer += both.end == LIMPET_WALK_COMPLETE;
		return;
	}
	assert_int_equal(both.end, LIMPET_WALK_COMPLETE);
	assert_int_equal(both.count, walker.count);
	for (uint32_t i = 0; i < both.count; i++)
		assert_int_equal(both.frames[i].address, walker.frames[i].address);
	compared++;
}

static struct limpet_tracer *tracer;

static void look_once(struct limpet_stack_copier *taking, const pid_t *tids, size_t count)
{
	struct limpet_stack_copy *copies = calloc(count, sizeof(*copies));
	struct limpet_stack_thread thread;
	struct limpet_stack_sources sources;
	struct limpet_modules modules;

	assert_non_null(copies);
	for (size_t i = 0; i < count; i++)
		if (limpet_stack_copier_copy(taking, tids[i], &thread, &copies[i]) < 0)
			copies[i].stack = NULL;
	assert_int_equal(limpet_modules_read(taking->target, &modules, NULL), 0);
	assert_int_equal(limpet_stack_sources_read(&modules, copies, count, &sources), 0);
	for (size_t i = 0; i < count; i++)
		if (copies[i].stack)
			compare(&sources.scene, &copies[i]);
	limpet_stack_sources_done(&sources);
	limpet_modules_done(&modules);
	for (size_t i = 0; i < count; i++)
		free(copies[i].stack);
	free(copies);
}

static void look_at_any(const char *name)
{
	const char *text = getenv("STACK_ROUNDS");
	const unsigned rounds = text ? (unsigned)atoi(text) : ROUNDS;
	struct limpet_stack_copier taking = {.tracer = tracer, .room = malloc(LIMPET_STACKS_BYTES)};
	struct program program;

	assert_non_null(taking.room);
	start(name, &program);
	taking.target = target_of(program.pid);
	compared = longer = 0;
	for (unsigned i = 0; i < rounds; i++) {
		pid_t *tids;
		int count = limpet_proc_tasks(program.pid, &tids);

		assert_true(count > 0);
		taking.bytes_left = (size_t)count * LIMPET_STACKS_BYTES;
		limpet_stack_maps_read(program.pid, &taking.maps);
		look_once(&taking, tids, (size_t)count);
		limpet_stack_maps_done(&taking.maps);
		free(tids);
	}
	limpet_tracer_rest(tracer);
	finish(&program);
	free(taking.room);
	print_message("%s: %u stacks are the same, %u need libunwind\n", name, compared, longer);
}

/* Of a program whose main thread rests in a function that is described. */
static void look_at(const char *name)
{
	look_at_any(name);
	assert_true(compared > 0);
}

static void test_every_shape(void **state)
{
	(void)state;
	look_at("shapes");
}

static void test_rust_by_two_linkers(void **state)
{
	(void)state;
	look_at("churn");
	look_at("churn-lld");
}

static void test_go(void **state)
{
	(void)state;
	look_at("churn-go");
}

static void test_static_programs(void **state)
{
	(void)state;
	look_at("static");
	/* musl describes none of its functions: a stack that has one of them is not compared. */
	look_at_any("storm-musl-static");
}

static int group_begin(void **state)
{
	(void)state;
	return limpet_tracer_new(&tracer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_shape),
		cmocka_unit_test(test_rust_by_two_linkers),
		cmocka_unit_test(test_go),
		cmocka_unit_test(test_static_programs),
	};

	return cmocka_run_group_tests(tests, group_begin, NULL);
}
