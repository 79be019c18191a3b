/* room LIMPET-PID [TURNS]: how many turns a thread of the captured program that has no room for its
 * events waits for a sign of the collector's life; and from now on, TURNS. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/wire.h"

/* Behind what the stub needs. */
static struct limpet_shm *map(int directory, const char *name)
{
	enum { PAGE = 4096, MOST = 4 << 20 };
	struct limpet_shm *shm = NULL;
	int fd = openat(directory, name, O_RDWR | O_CLOEXEC);

	for (off_t at = 0; fd >= 0 && !shm && at < MOST; at += PAGE) {
		uint64_t magic = 0;

		if (pread(fd, &magic, sizeof(magic), at) != sizeof(magic) ||
		    magic != LIMPET_SHM_MAGIC)
			continue;
		shm = mmap(NULL, sizeof(*shm), PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
		if (shm == MAP_FAILED)
			shm = NULL;
	}
	if (fd >= 0)
		close(fd);
	return shm;
}

int main(int argc, char **argv)
{
	char path[64], link[64];
	struct dirent *entry;
	DIR *directory;

	if (argc != 2 && argc != 3)
		return 2;
	snprintf(path, sizeof(path), "/proc/%d/fd", atoi(argv[1]));
	directory = opendir(path);
	while (directory && (entry = readdir(directory))) {
		ssize_t length =
			readlinkat(dirfd(directory), entry->d_name, link, sizeof(link) - 1);
		struct limpet_shm *shm;

		if (length < 0 || strncmp(link, "/memfd:", 7) != 0)
			continue;
		shm = map(dirfd(directory), entry->d_name);
		if (!shm)
			continue;
		printf("%llu\n", (unsigned long long)shm->wait_turns);
		if (argc == 3)
			__atomic_store_n(&shm->wait_turns, strtoull(argv[2], NULL, 10),
					 __ATOMIC_RELAXED);
		return 0;
	}
	fprintf(stderr, "room: process %s has no shared memory of limpet's\n", argv[1]);
	return 1;
}
