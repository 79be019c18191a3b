/* A program that limpet starts itself, and captures from its entry point on. */
#ifndef LIMPET_INJECTOR_SESSION_COMMAND_H
#define LIMPET_INJECTOR_SESSION_COMMAND_H

#include "common/err.h"
#include "injector/proc/target_process.h"

struct limpet_tracee;
struct limpet_tracer;

struct limpet_command {
	struct limpet_target target;
	struct limpet_tracer *tracer;
	struct limpet_tracee *tracee; /* NULL once a capture has taken it over */
};

/* See limpet_launch(). On success it is stopped at its entry point; the target may be one that
 * could not be opened. The caller calls one of the others, for either. */
int limpet_command_start(char *const argv[], struct limpet_command *ret,
			 struct limpet_err *err) LIMPET_MUST_CHECK;
/* Ends it, unless it has ended, before any of its own instructions has run. */
void limpet_command_end(struct limpet_command *command);
/* Waits until it ends by itself. Returns its status as of wait(2), or -errno. */
int limpet_command_wait(struct limpet_command *command);

#endif
