/* What the parts of preflight share: one check of one process. Private to injector/preflight*.c.
 *
 * A check returns 0, or -errno if it could not be made, so that nothing can be said; its findings
 * go into the list. A check that lacks a file adds nothing or says "unknown": without an answer it
 * refuses only if continuing could hurt the target. */
#ifndef LIMPET_INJECTOR_PREFLIGHT_PREFLIGHT_CHECK_H
#define LIMPET_INJECTOR_PREFLIGHT_PREFLIGHT_CHECK_H

#include "injector/preflight/attach_plan.h"
#include "injector/preflight/preflight.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

struct limpet_program;

struct limpet_check {
	const struct limpet_target *target;
	pid_t resident; /* the thread that has its memory: `target->pid`, unless its main thread has
			 * ended
			 */
	struct limpet_preflight_options options;
	struct limpet_proc_status status;
	struct limpet_maps maps; /* empty when they cannot be read */
	/* What is read from the target's memory, once for all checks. */
	bool examined;
	int plan_error; /* why there is none */
	struct limpet_attach_plan *plan;
	struct limpet_preflight *out;
	struct limpet_err *err; /* of the first refusal */
};

/* Adds a finding; a full list accepts no more, but a refusal replaces its last one. */
void limpet_check_add(struct limpet_check *check, enum limpet_severity severity, const char *id,
		      const char *brief, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* Adds a refusal with its errno. */
void limpet_check_refuse(struct limpet_check *check, int code, const char *id, const char *brief,
			 const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Sets the hint of the last finding (and of the error, if that was the first refusal). */
void limpet_check_hint(struct limpet_check *check, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The command that is checked for, for hints: "attach". */
const char *limpet_check_command(const struct limpet_check *check);
/* The same: a hint that names `limpet pages`, with these words before and after it. */
void limpet_check_hint_pages(struct limpet_check *check, const char *before, const char *after);

/* ------------------------------------------------------------------ the checks, in their order */

/* preflight_permission.c */
void limpet_check_tracer(struct limpet_check *check);
/* Returns true if the target may be traced; adds a refusal otherwise. */
bool limpet_check_permission(struct limpet_check *check);

/* preflight_program.c: ELF class, static linking, C library, allocators */
int limpet_check_program(struct limpet_check *check);
/* Of these the class alone: another's registers are not understood. */
int limpet_check_processor(struct limpet_check *check);
/* The plan, for these checks; NULL: it was refused already, or its memory cannot be read. */
struct limpet_attach_plan *limpet_check_plan(struct limpet_check *check);

/* preflight_translator.c: valgrind, qemu-user and the like. True: refused. */
bool limpet_check_translator(struct limpet_check *check);

/* preflight_cache.c: reads what the executable contains; -errno */
int limpet_check_read_program(struct limpet_check *check, struct limpet_program *ret_program);

/* preflight_libc.c */
bool limpet_program_is_go(const struct limpet_program *program);
void limpet_check_libc(struct limpet_check *check, const struct limpet_program *program);
/* `ld.so PROGRAM`: for the kernel the dynamic linker is the executable. *ret_loaded: it has loaded
 * the program. */
bool limpet_check_is_loader_by_hand(const struct limpet_check *check, bool *ret_loaded);

/* preflight_followed.c */
/* Notes that an allocator in `file` is out of reach; NULL: in the executable. ret_share: ": up to
 * 11% of its resident memory, 2.3 MiB", or "". */
void limpet_check_note_unseen(struct limpet_check *check, const char *name, const char *file,
			      char *ret_share, size_t room);
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
void limpet_check_threads_left(struct limpet_check *check);
void limpet_check_message_queues(struct limpet_check *check);
void limpet_check_mappings(struct limpet_check *check);
void limpet_check_namespaces(struct limpet_check *check);

#endif
