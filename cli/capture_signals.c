#include "cli/capture_signals.h"

#include <errno.h>
#include <stddef.h>

#include "common/err.h"

static volatile sig_atomic_t interrupted; /* before the end: requests it */
static volatile sig_atomic_t impatient;   /* after the end: skips the rest of sealing */
static volatile sig_atomic_t ending;
static volatile pid_t forward_to; /* run: the command */
static sigset_t handled, wait_mask;

/* The terminal itself sends its signals to the command; a signal from another process is forwarded.
 */
static void pass_on(int number, const siginfo_t *info)
{
	if (forward_to && info->si_code != SI_KERNEL)
		kill(forward_to, number);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const int saved = errno;

	(void)context;
	pass_on(number, info);
	if (ending)
		impatient = 1;
	else if (!forward_to)
		interrupted = 1;
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
	handled = block;
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

/* What came during the end, when it was blocked, is of the same key press as what began it: a
 * wrapper, such as timeout --foreground, passes on what the terminal has sent to all. */
void limpet_capture_signals_end(void)
{
	const struct timespec none = {0};
	siginfo_t info;

	while (sigtimedwait(&handled, &info, &none) > 0)
		pass_on(info.si_signo, &info);
	ending = 1;
}
