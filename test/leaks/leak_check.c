/* Preloaded by test/leaks/compare, with LeakSanitizer: SIGUSR2 makes it look, in any program, where
 * it rests. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

void __lsan_init(void);
int __lsan_do_recoverable_leak_check(void);

static void check(int signal)
{
	static const char done[] = "CHECKED\n";

	(void)signal;
	__lsan_do_recoverable_leak_check();
	if (write(STDERR_FILENO, done, sizeof(done) - 1) < 0)
		_exit(70);
}

__attribute__((constructor)) static void install(void)
{
	struct sigaction action = {.sa_handler = check, .sa_flags = SA_RESTART};

	/* Before its own constructor it cannot wrap sigaction. */
	__lsan_init();
	sigaction(SIGUSR2, &action, NULL);
}
