/* Which program a process executes, to find out whether it is the same one later. */
#ifndef LIMPET_EXPLAIN_PROGRAM_H
#define LIMPET_EXPLAIN_PROGRAM_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* Tells a process from a later one of the same number, and a program from one that it executes. */
struct limpet_program_identity {
	uint64_t start_ticks, image;
};

/* 0, or -ESRCH: there is no process. */
int limpet_program_identify(pid_t pid, struct limpet_program_identity *ret) LIMPET_MUST_CHECK;
/* 0: it is still that program. -ESRCH: the process ended. -ESTALE: it has executed another. */
int limpet_program_check(pid_t pid, const struct limpet_program_identity *before) LIMPET_MUST_CHECK;

#endif
