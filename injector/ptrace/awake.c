#include "injector/ptrace/awake.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/clock.h"

const char *limpet_awake_device = "/dev/cpu_dma_latency";

static struct {
	bool begun;
	int fd; /* -1: not open */
	uint64_t until_ns;
	unsigned times; /* in the second that began then */
	uint64_t second_ns;
} awake = {.fd = -1};

static void let_sleep(void)
{
	if (awake.fd >= 0)
		close(awake.fd);
	awake.fd = -1;
}

bool limpet_awake_begin(void)
{
	const uint64_t now_ns = limpet_monotonic_ns();
	const int32_t latency_us = 0;

	if (awake.begun)
		return false;
	awake.begun = true;
	awake.until_ns = now_ns + LIMPET_AWAKE_MOST_NS;
	if (now_ns - awake.second_ns >= 1000000000u) {
		awake.second_ns = now_ns;
		awake.times = 0;
	}
	if (awake.times++ >= LIMPET_AWAKE_TIMES)
		return true;
	awake.fd = open(limpet_awake_device, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (awake.fd >= 0 &&
	    write(awake.fd, &latency_us, sizeof(latency_us)) != (ssize_t)sizeof(latency_us))
		let_sleep();
	return true;
}

void limpet_awake_look(uint64_t now_ns)
{
	if (awake.fd >= 0 && now_ns >= awake.until_ns)
		let_sleep();
}

void limpet_awake_end(void)
{
	let_sleep();
	awake.begun = false;
}
