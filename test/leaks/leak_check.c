/* Preloaded by test/leaks/compare and clean, with LeakSanitizer: signal 63 makes it look, in any
 * program. It does not scan memory that the program has mapped; with LEAK_CHECK_ROOTS all of that
 * is a root, as for Valgrind. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Nobody else's. */
enum { CHECK_SIGNAL = 63 };
/* Where LeakSanitizer's own allocator has its blocks, in units of 4 GiB. */
enum { LSAN_FROM = 0x6000, LSAN_TO = 0x6400 };

void __lsan_init(void);
int __lsan_do_recoverable_leak_check(void);
void __lsan_register_root_region(const void *start, size_t bytes);

static void register_roots(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], mode[5];
	uintptr_t start, end;

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %4s", &start, &end, mode) != 3 ||
		    strncmp(mode, "rw", 2) != 0)
			continue;
		if (start >> 32 < LSAN_FROM || start >> 32 >= LSAN_TO)
			__lsan_register_root_region((const void *)start, end - start);
	}
	if (maps)
		fclose(maps);
}

static void check(int signal)
{
	static const char done[] = "CHECKED\n";

	(void)signal;
	if (getenv("LEAK_CHECK_ROOTS"))
		register_roots();
	__lsan_do_recoverable_leak_check();
	if (write(STDERR_FILENO, done, sizeof(done) - 1) < 0)
		_exit(70);
}

__attribute__((constructor)) static void install(void)
{
	struct sigaction action = {.sa_handler = check, .sa_flags = SA_RESTART};

	/* Before its own constructor it cannot wrap sigaction. */
	__lsan_init();
	sigaction(CHECK_SIGNAL, &action, NULL);
}
