/* What tests of preflight share: a process whose /proc is a substitute, real ones, and what is said
 * of them. Whatever fails here fails the running test. */
#ifndef LIMPET_TEST_PREFLIGHT_FIXTURE_H
#define LIMPET_TEST_PREFLIGHT_FIXTURE_H

#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "injector/preflight/preflight.h"
#include "test/unit/proc_fixture.h"

#define MIB ((uint64_t)1 << 20)
#define NOBODY 65534

/* What the last look has found. */
extern struct limpet_preflight preflight;
extern struct limpet_err preflight_err;
int preflight_look(pid_t pid, const struct limpet_preflight_options *options);
const struct limpet_finding *preflight_find(const char *id);
void assert_fine(void);
/* The whole of what a user sees of a refusal. */
void assert_refused(const char *id, const char *words, const char *hint);
void assert_error_is(const char *id);
/* For rows of a table: NULL, or what is wrong with it. `id`: NULL if nothing is to be refused. */
const char *preflight_complaint(const char *id, const char *words, const char *hint);

/* A process that exists, so that nobody takes it for gone; what /proc says of it is ours. */
extern pid_t preflight_pid;
int preflight_begin(void **state);
int preflight_end(void **state);
#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, preflight_begin, preflight_end)
/* The path of its file; valid until the next call. */
const char *in_proc(const char *name);
/* Makes it a process of this program. */
void put_program(const struct proc_fixture_elf *what);
/* A line of maps. */
extern const char libc_map[];

/* A child that runs `body` (which may be NULL), says so, and waits to be killed. */
pid_t child_of(void (*body)(void));
void reap(pid_t child);
/* Runs `body` as nobody in a child of its own; it exits by the assertion that failed. As any other
 * user nothing needs to change. */
void as_nobody(const char *name, void (*body)(void));
/* Exit statuses have 8 bits: the line number modulo 256 tells which. */
#define CHILD_ASSERT(condition)                                                              \
	do {                                                                                 \
		if (!(condition)) {                                                          \
			fprintf(stderr, "# %s:%d: %s: %s\n", __FILE__, __LINE__, #condition, \
				preflight_err.message);                                      \
			_exit(__LINE__ % 255 + 1);                                           \
		}                                                                            \
	} while (0)

/* The last test of each group, and its setup: of the refusals that the group answers for, each was
 * seen with its words and its hint, and for each of all refusals a group answers, or a test of
 * another kind. */
enum preflight_group {
	PREFLIGHT_PROCESS,
	PREFLIGHT_PERMISSION,
	PREFLIGHT_PROGRAMS,
	PREFLIGHT_LIMITS,
	PREFLIGHT_SECCOMP,
	PREFLIGHT_ELSEWHERE, /* test/integration */
};
extern const enum preflight_group preflight_group;
int preflight_group_begin(void **state);
void test_every_refusal_was_seen(void **state);

#endif
