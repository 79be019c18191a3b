/* What the programs to attach to share: talking to a test over stdin and stdout, without stdio and
 * without an allocation, so that a program's own counts are the only ones.
 *
 * A target prints "ready PID" and answers each line that it reads by one line. End of input ends it
 * in good order; anything wrong ends it with a message and status 70. */
#ifndef LIMPET_TEST_TARGETS_TARGET_H
#define LIMPET_TEST_TARGETS_TARGET_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TARGET_EXIT_BROKEN = 70 };

/* Not inlined and not merged with its caller: a frame that a report has to name. */
#define TARGET_FRAME __attribute__((noinline, noclone, noipa))
/* After a call: keeps it from becoming a jump, which would drop the caller's frame. */
#define TARGET_KEEP_FRAME() __asm__ volatile("" ::: "memory")

__attribute__((format(printf, 1, 2))) static inline void target_say(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (n < 0)
		_exit(TARGET_EXIT_BROKEN);
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	for (int done = 0; done < n;) {
		ssize_t wrote = write(STDOUT_FILENO, line + done, (size_t)(n - done));

		if (wrote < 0 && errno != EINTR)
			_exit(TARGET_EXIT_BROKEN);
		if (wrote > 0)
			done += (int)wrote;
	}
}

/* `_exit`: nothing of a broken program should still run. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void target_broken(const char *format,
										 ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (n < 0)
		n = 0;
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, "broken: ", 8) < 0 || write(STDERR_FILENO, line, (size_t)n) < 0)
		_exit(TARGET_EXIT_BROKEN);
	_exit(TARGET_EXIT_BROKEN);
}

/* The next line without its newline; false at the end of input. */
static inline bool target_listen(char *line, size_t bytes)
{
	size_t n = 0;

	for (;;) {
		char c;
		ssize_t got = read(STDIN_FILENO, &c, 1);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		if (c == '\n')
			break;
		if (n + 1 < bytes)
			line[n++] = c;
	}
	line[n] = '\0';
	return true;
}

/* "word 123" -> true and 123, when `line` starts with `word`. */
static inline bool target_word(const char *line, const char *word, unsigned long *ret_number)
{
	size_t n = strlen(word);

	if (strncmp(line, word, n) || (line[n] && line[n] != ' '))
		return false;
	*ret_number = line[n] ? strtoul(line + n, NULL, 10) : 0;
	return true;
}

/* For a program with one command: "WORD N" does that, and is answered; until "quit". */
static inline void target_serve(const char *word, void (*work)(unsigned long), const char *answer)
{
	unsigned long n;
	char line[256];

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		if (!target_word(line, word, &n))
			target_broken("unknown command '%s'", line);
		work(n);
		target_say("%s", answer);
	}
}

static inline uint64_t target_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* By how much limits against hanging are longer than on an idle machine; as the tests have it. */
static inline unsigned target_patience(void)
{
	const char *text = getenv("LIMPET_TEST_PATIENCE");
	const int patience = text ? atoi(text) : 0;

	return patience > 0 ? (unsigned)patience : 4;
}

/* xorshift64*: the same sequence on every machine. */
static inline uint64_t target_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 0x2545f4914f6cdd1dull;
}

#endif
