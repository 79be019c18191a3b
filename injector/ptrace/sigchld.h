/* SIGCHLD, by which the kernel tells of stops: blocked in the thread that stops others, which
 * sleeps until it is pending. */
#ifndef LIMPET_INJECTOR_PTRACE_SIGCHLD_H
#define LIMPET_INJECTOR_PTRACE_SIGCHLD_H

#include <signal.h>

/* The set of it alone. */
static inline sigset_t limpet_sigchld_set(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	return set;
}

#endif
