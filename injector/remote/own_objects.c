#include "injector/remote/own_objects.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/err.h"
#include "injector/proc/memfd.h"
#include "injector/proc/proc.h"
#include "injector/proc/proc_files.h"

#define REMEMBERED 1024u

static struct {
	dev_t device;
	ino_t inode;
} noted[REMEMBERED];
static size_t noted_count;

/* How many auxiliary vectors are kept; some 400 bytes each. */
#define EXECUTIONS 64u
static struct {
	char *vector;
	size_t bytes;
} executions[EXECUTIONS];
static size_t execution_count;

static size_t in_use(void)
{
	return noted_count < REMEMBERED ? noted_count : REMEMBERED;
}

static bool is_noted(const struct stat *status)
{
	for (size_t i = 0; i < in_use(); i++)
		if (noted[i].device == status->st_dev && noted[i].inode == status->st_ino)
			return true;
	return false;
}

void limpet_own_objects_note(int fd)
{
	struct stat status;
	size_t at = noted_count % REMEMBERED;

	if (fd < 0 || fstat(fd, &status) < 0 || is_noted(&status))
		return;
	noted[at].device = status.st_dev;
	noted[at].inode = status.st_ino;
	noted_count++;
}

/* Checks the name first, which decides in nearly all cases. */
static bool may_be_noted(pid_t pid, int fd)
{
	static const char socket[] = "socket:[";
	char name[32], link[64];

	snprintf(name, sizeof(name), "fd/%d", fd);
	return limpet_proc_link_read(pid, name, link, sizeof(link)) >= 0 &&
	       (!strncmp(link, socket, sizeof(socket) - 1) || limpet_memfd_is_ours(link));
}

bool limpet_own_objects_has(pid_t pid, int fd)
{
	struct stat status;

	return noted_count && may_be_noted(pid, fd) &&
	       limpet_proc_fd_identity(pid, fd, &status) == 0 && is_noted(&status);
}

bool limpet_own_objects_has_inode(uint64_t inode)
{
	for (size_t i = 0; i < in_use(); i++)
		if (noted[i].inode == inode)
			return true;
	return false;
}

bool limpet_own_objects_has_execution(pid_t pid)
{
	LIMPET_FREE char *vector = NULL;
	size_t bytes;

	if (limpet_proc_file_read(pid, "auxv", &vector, &bytes) < 0 || !bytes)
		return false;
	for (size_t i = 0; i < EXECUTIONS; i++)
		if (executions[i].bytes == bytes && !memcmp(executions[i].vector, vector, bytes))
			return true;
	return false;
}

void limpet_own_objects_note_execution(pid_t pid)
{
	size_t at = execution_count % EXECUTIONS, bytes;
	char *vector;

	if (limpet_own_objects_has_execution(pid) ||
	    limpet_proc_file_read(pid, "auxv", &vector, &bytes) < 0)
		return;
	free(executions[at].vector);
	executions[at].vector = vector;
	executions[at].bytes = bytes;
	execution_count++;
}
