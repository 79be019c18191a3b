/* Signals that would end or stop limpet wait while threads of a target stand: what the stop did to
 * their system calls is undone when they are let go. After SIGSTOP the watchdog sees to it, after
 * SIGKILL the kernel. */
#ifndef LIMPET_INJECTOR_STACKS_STOP_SIGNALS_H
#define LIMPET_INJECTOR_STACKS_STOP_SIGNALS_H

#include <signal.h>
#include <stddef.h>

static inline void limpet_stop_signals_block(sigset_t *ret_before)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&set, signals[i]);
	pthread_sigmask(SIG_BLOCK, &set, ret_before);
}
static inline void limpet_stop_signals_restore(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

#endif
