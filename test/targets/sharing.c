/* sharing: a child that shares most of its memory with its parent since a fork, and has many files
 *of data mapped that it never looks at.
 *
 *	sharing DIRECTORY      "ready PID", of the child; DIRECTORY is for the files
 *
 * Commands: "work N" allocates and frees N blocks, "worked"; "quit". */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "test/targets/target.h"

#define SHARED_BYTES (64u << 20)
#define BLOCKS 1000u
#define FILES 200u
#define FILE_BYTES (1u << 20)

static char *blocks[BLOCKS];

static void map_files(const char *directory)
{
	char path[4096], *page = malloc(FILE_BYTES);

	memset(page, 1, FILE_BYTES);
	for (unsigned i = 0; i < FILES; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%u", directory, i);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 || write(fd, page, FILE_BYTES) != FILE_BYTES ||
		    mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
			target_broken("%s: %s", path, strerror(errno));
		close(fd);
	}
	free(page);
}

static void child(const char *directory)
{
	char line[256];
	unsigned long n;

	map_files(directory);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && target_word(line, "work", &n)) {
		while (n--)
			free(malloc(100));
		target_say("worked");
	}
	_exit(strcmp(line, "quit") != 0);
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc != 2)
		target_broken("usage: sharing DIRECTORY");
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(SHARED_BYTES / BLOCKS);
		if (!blocks[i])
			target_broken("no memory");
		memset(blocks[i], 1, SHARED_BYTES / BLOCKS);
	}
	pid = fork();
	if (pid == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
		child(argv[1]);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		target_broken("fork: %s", strerror(errno));
	return !WIFEXITED(status) || WEXITSTATUS(status);
}
