#include "common/own_stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>

#define WANTED_BYTES (1u << 20)
#define LEAST_BYTES (256u << 10)

static struct rlimit before;
static bool raised;

int limpet_own_stack_raise(struct limpet_err *err)
{
	struct rlimit limit;
	pthread_attr_t attributes;

	if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= WANTED_BYTES)
		return 0;
	before = limit;
	limit.rlim_cur = limit.rlim_max < WANTED_BYTES ? limit.rlim_max : WANTED_BYTES;
	if (limit.rlim_cur < LEAST_BYTES) {
		limpet_err_set(err, -ENOMEM, "limpet needs a stack of %u KiB; its limit is %lu KiB",
			       LEAST_BYTES >> 10, (unsigned long)(limit.rlim_cur >> 10));
		limpet_err_hint(err, "see: ulimit -H -s");
		return -ENOMEM;
	}
	raised = setrlimit(RLIMIT_STACK, &limit) == 0;
	/* The C library has taken the size for threads from the limit that it began with. */
	if (pthread_attr_init(&attributes) == 0) {
		(void)pthread_attr_setstacksize(&attributes, WANTED_BYTES);
		(void)pthread_setattr_default_np(&attributes);
		pthread_attr_destroy(&attributes);
	}
	return 0;
}

void limpet_own_stack_restore(void)
{
	if (raised)
		(void)setrlimit(RLIMIT_STACK, &before);
}
