/* What a stop does to the system call in which a thread sleeps, as far as this can be told without
 * stopping it.
 *
 * The kernel wakes a thread to stop it. After most calls the kernel restarts or continues the call
 * when the thread is released, and the program notices nothing (ERESTARTSYS, ERESTARTNOINTR,
 * ERESTARTNOHAND, ERESTART_RESTARTBLOCK). Others return what they would return after SIGSTOP and
 * SIGCONT (signal(7), "Interruption of system calls and library functions by stop signals"): EINTR,
 * after which limpet has the kernel make the call again where that is right
 * (limpet_stop_limit_of()), or fewer bytes than they would have moved. The latter do more harm:
 * programs expect EINTR, but few expect a short write(2) on a pipe that blocks. They are avoided,
 * and finished if that fails (limpet_rest_new()).
 *
 * A call about which a seccomp filter asks a supervisor (SECCOMP_RET_USER_NOTIF,
 * seccomp_unotify(2)) is asked about again after a stop, whatever call it is: what the supervisor
 * has begun for it is done twice. Such a call counts as one that would be cut short. */
#ifndef LIMPET_INJECTOR_PTRACE_STOP_EFFECT_H
#define LIMPET_INJECTOR_PTRACE_STOP_EFFECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "injector/proc/proc.h"

/* In ascending order of harm. */
enum limpet_stop_effect {
	LIMPET_STOP_UNSEEN,
	LIMPET_STOP_TIMED,    /* EINTR if the socket has a time limit (SO_RCVTIMEO, SO_SNDTIMEO) */
	LIMPET_STOP_DOUBTFUL, /* depends on who serves the file, the device or the call */
	LIMPET_STOP_BREAKS,   /* EINTR, or EAGAIN of a futex */
	LIMPET_STOP_CUTS      /* may return after moving a part of the data, or without a wait; or a
			       * supervisor is asked twice */
};

/* The effect on a thread that sleeps (`call->running` is false). Assumes the worst of its kind for
 * what cannot be read. */
enum limpet_stop_effect limpet_stop_effect_of(pid_t pid, const struct limpet_proc_syscall *call);
/* The same of a thread; `filtered`: it has a seccomp filter. */
enum limpet_stop_effect limpet_stop_effect_on(pid_t pid, pid_t tid, bool filtered,
					      const struct limpet_proc_syscall *call);
/* Of LIMPET_STOP_TIMED: whether the socket has a time limit. True if it cannot be asked (before
 * Linux 5.6). */
bool limpet_stop_has_time_limit(pid_t pid, const struct limpet_proc_syscall *call);
/* The same of a copy of it. For handlers of signals, too. */
bool limpet_stop_socket_has_time_limit(int fd);
/* Whether the thread sleeps in a system call that a stop would cut short; *ret_number (may be
 * NULL): which one. `filtered` as above. */
bool limpet_stop_cuts(pid_t pid, pid_t tid, bool filtered, long *ret_number);
/* Whether the thread that sleeps in it would notice a stop: EINTR is undone where the call can be
 * made again (limpet_stop_limit_of()). */
bool limpet_stop_disturbs(pid_t pid, pid_t tid, bool filtered,
			  const struct limpet_proc_syscall *call);
/* How long a call may last that returned EINTR because of a stop, if it can be made again without
 * harm: a closed list. Never close(2) and its like, which have closed. */
enum limpet_stop_limit {
	LIMPET_LIMIT_UNKNOWN, /* or it must not be made again */
	LIMPET_LIMIT_NONE,
	LIMPET_LIMIT_IN_REGISTER /* in milliseconds, the fourth argument */
};
enum limpet_stop_limit limpet_stop_limit_of(long number, const uint64_t args[6]);
/* The name of a system call for which limpet_stop_effect_of() may return LIMPET_STOP_CUTS; NULL: it
 * is no such call. */
const char *limpet_stop_call_name(long number);

/* By the system call number alone. UNKNOWN: of a kernel that is newer than the table. */
enum limpet_stop_class {
	LIMPET_CALL_UNKNOWN,
	LIMPET_CALL_QUICK,  /* sleeps only where no stop wakes it */
	LIMPET_CALL_AGAIN,  /* the kernel restarts or continues it */
	LIMPET_CALL_SERVED, /* the same, unless a server outside the kernel answers (FUSE) */
	LIMPET_CALL_BREAKS,
	LIMPET_CALL_CUTS,
	LIMPET_CALL_DEPENDS /* on its arguments: stop_effect.c judges them */
};
enum limpet_stop_class limpet_stop_class_of(long number);

#endif
