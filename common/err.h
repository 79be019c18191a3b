/* Errors with messages, and cleanup attributes.
 *
 * Convention of the whole project: functions return >= 0 or -errno; out-parameters come last, are
 * named ret_*, and are untouched on failure. If a user needs more than an errno, the function also
 * takes a struct limpet_err and fills in a sentence and, if there is one, the command that helps.
 * Only the command layer (cli/) prints. */
#ifndef LIMPET_COMMON_ERR_H
#define LIMPET_COMMON_ERR_H

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Exit statuses of `limpet`; fixed. */
enum limpet_exit {
	LIMPET_EXIT_OK = 0,
	LIMPET_EXIT_FAILED = 1, /* target untouched or restored */
	LIMPET_EXIT_USAGE = 2,
	LIMPET_EXIT_REFUSED = 3,    /* by preflight */
	LIMPET_EXIT_INCOMPLETE = 4, /* captured, `complete` is false */
	LIMPET_EXIT_DORMANT = 5,    /* captured or not, the agent stays in the target */
	LIMPET_EXIT_FAIL_ON = 6     /* what --fail-on asked for holds */
};

struct limpet_err {
	int code;          /* negative errno, or 0 */
	char message[512]; /* one sentence, no newline, no full stop */
	char hint[512];    /* empty or one sentence */
};

/* Sets code (negative errno) and message, clears the hint, returns `code`. `err` may be NULL. */
int limpet_err_set(struct limpet_err *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void limpet_err_hint(struct limpet_err *err, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* -errno after a failed call: never 0, even if the call did not set errno. */
static inline int limpet_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

#define LIMPET_MUST_CHECK __attribute__((warn_unused_result))

static inline void limpet_cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
static inline void limpet_cleanup_free(void *p)
{
	free(*(void **)p);
}
static inline void limpet_cleanup_file(FILE **f)
{
	if (*f)
		fclose(*f);
}
#define LIMPET_CLOSE __attribute__((cleanup(limpet_cleanup_close)))
#define LIMPET_FREE __attribute__((cleanup(limpet_cleanup_free)))
#define LIMPET_FCLOSE __attribute__((cleanup(limpet_cleanup_file)))

static inline int limpet_take_fd(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}
#define LIMPET_TAKE(p)                      \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})
#define LIMPET_COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

#endif
