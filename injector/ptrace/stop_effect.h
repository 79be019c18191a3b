/* What a stop does to the system call in which a thread sleeps, as far as that can be told without
 * one.
 *
 * The kernel wakes a thread to stop it. Most calls are then begun anew, or gone on with, when the
 * thread is let go, and the program sees nothing (ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND,
 * ERESTART_RESTARTBLOCK). Others answer what they would answer after SIGSTOP and SIGCONT: EINTR,
 * for which no tracer can do better (signal(7), "Interruption of system calls and library functions
 * by stop signals"), or fewer bytes than they would have moved. The latter lose more: programs
 * expect EINTR, and few expect a short write(2) on a pipe that blocks. */
#ifndef LIMPET_INJECTOR_PTRACE_STOP_EFFECT_H
#define LIMPET_INJECTOR_PTRACE_STOP_EFFECT_H

#include <stdbool.h>
#include <sys/types.h>

#include "injector/proc/proc.h"

/* From the least to the most. */
enum limpet_stop_effect {
	LIMPET_STOP_UNSEEN,
	LIMPET_STOP_TIMED,    /* EINTR if the socket has a time limit (SO_RCVTIMEO, SO_SNDTIMEO) */
	LIMPET_STOP_DOUBTFUL, /* depends on who serves the file, device or call */
	LIMPET_STOP_BREAKS,   /* EINTR, or EAGAIN of a futex */
	LIMPET_STOP_CUTS      /* may end with a part of what it was to move */
};

/* Of a thread that sleeps (`call->running` is false). What cannot be read counts as if it were the
 * worst of its kind. */
enum limpet_stop_effect limpet_stop_effect_of(pid_t pid, const struct limpet_proc_syscall *call);
/* Whether the thread sleeps in a call that a stop would cut short; *ret_number (may be NULL): which
 * one. */
bool limpet_stop_cuts(pid_t pid, pid_t tid, long *ret_number);
/* The name of a call for which limpet_stop_effect_of() may answer LIMPET_STOP_CUTS. */
const char *limpet_stop_call_name(long number);

/* By the number alone. UNKNOWN: of a kernel that is newer than the table. */
enum limpet_stop_class {
	LIMPET_CALL_UNKNOWN,
	LIMPET_CALL_QUICK,  /* sleeps at most where no stop wakes it */
	LIMPET_CALL_AGAIN,  /* the kernel begins it anew or goes on with it */
	LIMPET_CALL_SERVED, /* likewise, unless a server outside of the kernel answers (FUSE) */
	LIMPET_CALL_BREAKS,
	LIMPET_CALL_CUTS,
	LIMPET_CALL_DEPENDS /* on its arguments: stop_effect.c has them */
};
enum limpet_stop_class limpet_stop_class_of(long number);

#endif
