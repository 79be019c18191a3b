/* The socket to the collector. The program may close our descriptor or put another file under its
 * number at any time; not one byte may go there. */
#include "agent/agent.h"

#include <asm/stat.h>
#include <linux/fcntl.h>
#include <linux/socket.h>

#define MSG_DONTWAIT_NOSIGNAL (0x40 | 0x4000)
#define EAGAIN_VALUE 11
#define ENOBUFS_VALUE 105
#define EBADF_VALUE 9

static int channel = -1;
static uint64_t channel_dev, channel_ino;
static uint64_t message_number;

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

bool limpet_channel_is_ours(void)
{
	struct stat status;

	status.st_dev = status.st_ino = 0;
	return channel >= 0 && limpet_syscall3(SYS_fstat, channel, (long)&status, 0) == 0 &&
	       status.st_dev == channel_dev && status.st_ino == channel_ino;
}

int limpet_channel_send(uint32_t type, uint32_t thread, uint64_t sequence, uint64_t value)
{
	struct limpet_msg message = {
		.type = type,
		.thread = thread,
		.number = __atomic_fetch_add(&message_number, 1, __ATOMIC_RELAXED),
		.sequence = sequence,
		.value = value,
	};
	long answer = -EBADF_VALUE;

	if (limpet_channel_is_ours())
		answer = limpet_syscall6(SYS_sendto, channel, (long)&message, sizeof(message),
					 MSG_DONTWAIT_NOSIGNAL, 0, 0);
	else
		__atomic_store_n(&limpet_shm->channel_lost, 1, __ATOMIC_RELAXED);
	/* A full socket loses nothing: the records are in shared memory, and the collector looks
	 * there by itself too. Anything else means that nobody listens any more. */
	if (answer >= 0 || answer == -EAGAIN_VALUE || answer == -ENOBUFS_VALUE)
		return 0;
	__atomic_store_n(&limpet_control->on, 0, __ATOMIC_RELEASE);
	return (int)answer;
}

void limpet_channel_close(void)
{
	if (limpet_channel_is_ours())
		limpet_syscall1(SYS_close, channel);
	channel = -1;
	limpet_agent_info.channel = (uint64_t)-1;
}
