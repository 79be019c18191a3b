/* What the parts of preflight share: one look at one process. Private to injector/preflight*.c.
 *
 * A check answers 0, or -errno when looking itself failed so that nothing can be said at all; what
 * it found goes into the list. A check that lacks a file stays silent or says "unknown": it never
 * refuses for want of an answer unless going on could hurt the target. */
#ifndef LIMPET_INJECTOR_PREFLIGHT_PREFLIGHT_CHECK_H
#define LIMPET_INJECTOR_PREFLIGHT_PREFLIGHT_CHECK_H

#include "injector/image/entry_find.h"
#include "injector/image/modules.h"
#include "injector/preflight/preflight.h"
#include "injector/proc/proc.h"

/* Stand for a process's own view and the machine's; tests point it elsewhere. */
extern const char *limpet_preflight_sys_root; /* "/sys" */

struct limpet_program;

/* What is to be read from its memory, once for all checks. */
struct limpet_inside {
	bool looked;
	int error; /* of looking: nothing else is filled in */
	struct limpet_modules modules;
	struct limpet_entries entries; /* but for operators of which exceptions would not pass */
	int loader_error;              /* as limpet_plan_find_loader(), with words */
	struct limpet_err loader_err;
	const char *mapped; /* why the agent is mapped, without a dynamic linker; NULL: it is not */
};

struct limpet_check {
	pid_t pid;
	pid_t resident; /* the thread that has its memory: pid, unless its main thread has ended */
	struct limpet_preflight_options options;
	struct limpet_proc_status status;
	struct limpet_maps maps; /* empty when they cannot be read */
	struct limpet_inside inside;
	struct limpet_preflight *out;
	struct limpet_err *err; /* of the first refusal */
};

/* Adds a finding; a list that is full takes no more, except that a refusal replaces the last. */
void limpet_check_add(struct limpet_check *check, enum limpet_severity severity, const char *id,
		      const char *brief, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* Adds a refusal with its errno. */
void limpet_check_refuse(struct limpet_check *check, int code, const char *id, const char *brief,
			 const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Hint of the last finding added (and of the error, if that was the first refusal). */
void limpet_check_hint(struct limpet_check *check, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ------------------------------------------------------------------ the checks, in their order */

/* preflight_permission.c */
void limpet_check_tracer(struct limpet_check *check);
/* Answers true if the target may be traced; adds a refusal otherwise. */
bool limpet_check_permission(struct limpet_check *check);

/* preflight_program.c: ELF class, static linking, C library, allocators */
int limpet_check_program(struct limpet_check *check);
/* For these: what is inside; NULL: it was refused by now, or cannot be read. */
struct limpet_inside *limpet_check_inside(struct limpet_check *check);

/* preflight_cache.c: what its executable contains; -errno */
int limpet_check_read_program(struct limpet_check *check, struct limpet_program *ret_program);

/* preflight_libc.c */
bool limpet_program_is_go(const struct limpet_program *program);
void limpet_check_libc(struct limpet_check *check, const struct limpet_program *program);
/* `ld.so PROGRAM`: the kernel has the dynamic linker as the executable. Whether it has loaded
 * anything is answered apart. */
bool limpet_check_is_loader_by_hand(const struct limpet_check *check, bool *ret_loaded);

/* preflight_followed.c */
void limpet_check_libraries(struct limpet_check *check, const struct limpet_program *program);
void limpet_check_own_allocator(struct limpet_check *check, const struct limpet_program *program);
void limpet_check_listed(struct limpet_check *check);
void limpet_check_unfollowed(struct limpet_check *check);

/* preflight_seccomp.c */
void limpet_check_seccomp(struct limpet_check *check);

/* preflight_threads.c */
void limpet_check_threads(struct limpet_check *check);

/* preflight_limits.c */
void limpet_check_kernel(struct limpet_check *check);
void limpet_check_shadow_stack(struct limpet_check *check);
void limpet_check_priority(struct limpet_check *check);
void limpet_check_memory(struct limpet_check *check);
void limpet_check_files(struct limpet_check *check);
void limpet_check_mappings(struct limpet_check *check);
void limpet_check_namespaces(struct limpet_check *check);

#endif
