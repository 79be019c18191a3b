#include "cli/capture_signals.h"

#include <errno.h>
#include <stddef.h>

#include "common/clock.h"
#include "common/err.h"

static volatile sig_atomic_t interrupted; /* before the end: requests it */
static volatile sig_atomic_t impatient;   /* after the end: skips the rest of sealing */
static volatile sig_atomic_t ending;
static volatile pid_t forward_to; /* run: the command */
/* A wrapper, such as timeout --foreground, sends on what the terminal has sent, too. */
#define ONE_PRESS_NS 500000000u
static volatile uint64_t interrupted_ns; /* the first time */
static sigset_t wait_mask;

/* The terminal itself sends its signals to the command; a signal from another process is forwarded.
 */
static void on_signal(int number, siginfo_t *info, void *context)
{
	const int saved = errno;
	const uint64_t now_ns = limpet_monotonic_ns();

	(void)context;
	if (forward_to && info->si_code != SI_KERNEL)
		kill(forward_to, number);
	if (!ending && !forward_to && !interrupted) {
		interrupted_ns = now_ns;
		interrupted = 1;
	} else if (ending && now_ns - interrupted_ns > ONE_PRESS_NS) {
		impatient = 1;
	}
	errno = saved;
}

void limpet_capture_signals_setup(pid_t command)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
	static const int stops[] = {SIGTSTP, SIGTTIN, SIGTTOU};
	const size_t of_attach = 3;
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO}, old;
	sigset_t block;

	sigemptyset(&block);
	forward_to = command;
	for (size_t i = 0; i < (command ? LIMPET_COUNT_OF(numbers) : of_attach); i++) {
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
			continue;
		sigaction(numbers[i], &action, NULL);
		sigaddset(&block, numbers[i]);
	}
	/* Ctrl-Z and similar stops by the terminal: tracees would stay stopped as long as
	 * limpet. */
	for (size_t i = 0; i < LIMPET_COUNT_OF(stops); i++)
		sigaddset(&block, stops[i]);
	signal(SIGPIPE, SIG_IGN);
	/* A limit on file sizes also applies to shared memory: let the call fail instead. */
	signal(SIGXFSZ, SIG_IGN);
	sigprocmask(SIG_BLOCK, &block, &wait_mask);
	/* All of these are unblocked while waiting. SIGCHLD stays blocked: waits for stops sleep on
	 * it. */
	for (size_t i = 0; i < LIMPET_COUNT_OF(numbers); i++)
		sigdelset(&wait_mask, numbers[i]);
	sigaddset(&wait_mask, SIGCHLD);
}

void limpet_capture_signals_open(void)
{
	sigprocmask(SIG_SETMASK, &wait_mask, NULL);
}

const sigset_t *limpet_capture_wait_mask(void)
{
	return &wait_mask;
}

const volatile sig_atomic_t *limpet_capture_interrupted(void)
{
	return &interrupted;
}

const volatile sig_atomic_t *limpet_capture_impatient(void)
{
	return &impatient;
}

void limpet_capture_signals_end(void)
{
	ending = 1;
}
