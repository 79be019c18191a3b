#include "injector/ptrace/awake.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/clock.h"

static void let_sleep(struct limpet_awake *awake)
{
	if (awake->is_open)
		close(awake->fd);
	awake->is_open = false;
}

void limpet_awake_begin(struct limpet_awake *awake)
{
	const uint64_t now_ns = limpet_monotonic_ns();
	const int32_t latency_us = 0;

	if (awake->begun++)
		return;
	awake->until_ns = now_ns + LIMPET_AWAKE_MOST_NS;
	if (now_ns - awake->second_ns >= 1000000000u) {
		awake->second_ns = now_ns;
		awake->times = 0;
	}
	if (awake->times++ >= LIMPET_AWAKE_TIMES)
		return;
	awake->fd = open(LIMPET_AWAKE_DEVICE, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	awake->is_open = awake->fd >= 0;
	if (awake->is_open &&
	    write(awake->fd, &latency_us, sizeof(latency_us)) != (ssize_t)sizeof(latency_us))
		let_sleep(awake);
}

void limpet_awake_check(struct limpet_awake *awake, uint64_t now_ns)
{
	if (awake->is_open && now_ns >= awake->until_ns)
		let_sleep(awake);
}

void limpet_awake_end(struct limpet_awake *awake)
{
	if (--awake->begun == 0)
		let_sleep(awake);
}
