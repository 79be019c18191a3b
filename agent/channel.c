/* The agent's end of the socket to the collector. Hooks do not use it: it exists from start to
 * release. The program may close it or reuse its number at any time, and is still captured; the
 * agent must then not close the descriptor. */
#include "agent/channel.h"
#include "agent/agent.h"

#include <asm/stat.h>

static int channel = -1;
static uint64_t channel_dev, channel_ino;

int limpet_channel_adopt(int fd)
{
	struct stat status;
	long answer;

	status.st_dev = status.st_ino = 0;
	answer = limpet_syscall3(SYS_fstat, fd, (long)&status, 0);

	if (answer < 0)
		return (int)answer;
	channel_dev = status.st_dev;
	channel_ino = status.st_ino;
	channel = fd;
	limpet_agent_info.channel = (uint64_t)fd;
	return 0;
}

static bool is_ours(void)
{
	struct stat status;

	status.st_dev = status.st_ino = 0;
	return channel >= 0 && limpet_syscall3(SYS_fstat, channel, (long)&status, 0) == 0 &&
	       status.st_dev == channel_dev && status.st_ino == channel_ino;
}

void limpet_channel_close(void)
{
	if (is_ours())
		limpet_syscall1(SYS_close, channel);
	channel = -1;
	limpet_agent_info.channel = (uint64_t)-1;
}
