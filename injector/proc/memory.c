#include "injector/proc/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "injector/proc/proc.h"
#include "injector/proc/proc_files.h"

#define PAGE 4096u
#define MAX_PARTS 512u
#define MAX_PROBES 64u

static _Thread_local struct limpet_memory_calls *counted;

void limpet_memory_count_calls(struct limpet_memory_calls *calls)
{
	counted = calls;
	if (calls)
		calls->tid = gettid();
}

void limpet_memory_count_call(pid_t pid)
{
	if (!counted)
		return;
	__atomic_store_n(&counted->pid, pid, __ATOMIC_RELAXED);
	__atomic_store_n(&counted->number, counted->number + 1, __ATOMIC_RELEASE);
}

/* Makes either call; if the main thread has ended, and released its memory, through another thread.
 */
static ssize_t move(bool write, pid_t pid, struct iovec *local, struct iovec *remote, size_t parts)
{
	ssize_t (*const call)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
			      unsigned long, unsigned long) =
		write ? process_vm_writev : process_vm_readv;
	ssize_t answer;
	pid_t resident;

	limpet_memory_count_call(pid);
	answer = call(pid, local, 1, remote, parts, 0);
	limpet_memory_count_call(pid);
	if (answer >= 0 || errno != ESRCH)
		return answer;
	resident = limpet_proc_resident(pid);
	errno = ESRCH;
	if (resident == pid)
		return answer;
	limpet_memory_count_call(pid);
	answer = call(resident, local, 1, remote, parts, 0);
	limpet_memory_count_call(pid);
	return answer;
}

/* Reads in one call: the kernel takes the lock of the target's memory once for it, or once per MiB,
 * and if many threads map and unmap, that lock is slow to get. */
static size_t read_whole(pid_t pid, uint64_t address, void *ret, size_t bytes)
{
	struct iovec local = {ret, bytes};
	struct iovec remote = {(void *)(uintptr_t)address, bytes};
	ssize_t answer = move(false, pid, &local, &remote, 1);

	return answer > 0 ? (size_t)answer : 0;
}

ssize_t limpet_memory_read_some(pid_t pid, uint64_t address, void *ret, size_t bytes)
{
	size_t done = read_whole(pid, address, ret, bytes);

	/* Reads what is left with one remote part per page: the kernel stops at the first part
	 * that faults, and counts the complete parts before it. */
	while (done < bytes) {
		struct iovec local = {(uint8_t *)ret + done, 0};
		struct iovec remote[MAX_PARTS];
		size_t count = 0, asked = 0;
		ssize_t answer;

		while (count < MAX_PARTS && done + asked < bytes) {
			uint64_t at = address + done + asked;
			size_t part = PAGE - (at & (PAGE - 1));

			if (part > bytes - done - asked)
				part = bytes - done - asked;
			remote[count].iov_base = (void *)(uintptr_t)at;
			remote[count++].iov_len = part;
			asked += part;
		}
		local.iov_len = asked;
		answer = move(false, pid, &local, remote, count);
		if (answer < 0)
			return done ? (ssize_t)done : -errno;
		done += (size_t)answer;
		if ((size_t)answer < asked)
			break;
	}
	return (ssize_t)done;
}

int limpet_memory_read(pid_t pid, uint64_t address, void *ret, size_t bytes)
{
	struct iovec local = {ret, bytes};
	struct iovec remote = {(void *)(uintptr_t)address, bytes};
	size_t done = 0;

	while (done < bytes) {
		ssize_t answer;

		local.iov_base = (uint8_t *)ret + done;
		remote.iov_base = (void *)(uintptr_t)(address + done);
		local.iov_len = remote.iov_len = bytes - done;
		answer = move(false, pid, &local, &remote, 1);
		if (answer < 0)
			return -errno;
		if (answer == 0)
			return -EFAULT;
		done += (size_t)answer;
	}
	return 0;
}

/* -errno; 0: the process has no memory. */
static ssize_t read_file(pid_t pid, uint64_t address, void *ret, size_t bytes)
{
	LIMPET_CLOSE int memory = limpet_proc_open_of(pid, "mem", O_RDONLY);
	size_t done = 0;

	while (memory >= 0 && done < bytes) {
		ssize_t answer;

		limpet_memory_count_call(pid);
		answer =
			pread(memory, (uint8_t *)ret + done, bytes - done, (off_t)(address + done));
		limpet_memory_count_call(pid);
		if (answer < 0 && !done)
			return errno == EIO ? -EFAULT : -errno;
		if (answer <= 0)
			break;
		done += (size_t)answer;
	}
	return memory < 0 ? memory : (ssize_t)done;
}

ssize_t limpet_memory_read_own_some(pid_t pid, uint64_t address, void *ret, size_t bytes)
{
	ssize_t answer = read_file(pid, address, ret, bytes);
	pid_t resident;

	if (answer || !bytes)
		return answer;
	resident = limpet_proc_resident(pid);
	if (resident != pid)
		answer = read_file(resident, address, ret, bytes);
	return answer ?: -ESRCH;
}

bool limpet_memory_is_forced(void)
{
	static enum { UNKNOWN, NO, YES } forced;

	if (!forced) {
		void *page = mmap(NULL, PAGE, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		char byte;

		forced = page != MAP_FAILED && limpet_memory_read_own(getpid(), (uintptr_t)page,
								      &byte, sizeof(byte)) == 0
				 ? YES
				 : NO;
		if (page != MAP_FAILED)
			munmap(page, PAGE);
	}
	return forced == YES;
}

int limpet_memory_read_own(pid_t pid, uint64_t address, void *ret, size_t bytes)
{
	ssize_t answer = limpet_memory_read_own_some(pid, address, ret, bytes);

	if (answer < 0)
		return (int)answer;
	return (size_t)answer == bytes ? 0 : -EFAULT;
}

size_t limpet_memory_probe(pid_t pid, const uint64_t *addresses, size_t count)
{
	struct iovec remote[MAX_PROBES];
	uint8_t bytes[MAX_PROBES];
	struct iovec local = {bytes, 0};
	ssize_t answer;

	for (; local.iov_len < count && local.iov_len < MAX_PROBES; local.iov_len++) {
		remote[local.iov_len].iov_base = (void *)(uintptr_t)addresses[local.iov_len];
		remote[local.iov_len].iov_len = 1;
	}
	answer = move(false, pid, &local, remote, local.iov_len);
	return answer < 0 ? 0 : (size_t)answer;
}

int limpet_memory_write(pid_t pid, uint64_t address, const void *from, size_t bytes)
{
	struct iovec local = {(void *)(uintptr_t)from, bytes};
	struct iovec remote = {(void *)(uintptr_t)address, bytes};
	ssize_t answer = move(true, pid, &local, &remote, 1);

	if (answer < 0)
		return -errno;
	return (size_t)answer == bytes ? 0 : -EFAULT;
}

int limpet_memory_exchange_stopped(int mem_fd, uint64_t address, uint64_t expected, uint64_t value)
{
	uint64_t word;

	if (pread(mem_fd, &word, sizeof(word), (off_t)address) != (ssize_t)sizeof(word))
		return errno ? -errno : -EFAULT;
	if (word != expected)
		return 1;
	if (pwrite(mem_fd, &value, sizeof(value), (off_t)address) != (ssize_t)sizeof(value))
		return errno ? -errno : -EFAULT;
	return 0;
}
