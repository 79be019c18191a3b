#include "injector/footprint.h"

#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/err.h"
#include "injector/proc_files.h"

#define REMEMBERED 1024u

static struct {
	dev_t device;
	ino_t inode;
} noted[REMEMBERED];
static size_t noted_count;

static bool find(pid_t pid, int fd, struct stat *ret)
{
	char path[PATH_MAX];

	return limpet_proc_path(path, pid, "fd/%d", fd) >= 0 && stat(path, ret) == 0;
}

void limpet_footprint_note(pid_t pid, int fd)
{
	struct stat status;
	size_t at = noted_count % REMEMBERED;

	if (fd < 0 || limpet_footprint_has(pid, fd) || !find(pid, fd, &status))
		return;
	noted[at].device = status.st_dev;
	noted[at].inode = status.st_ino;
	noted_count++;
}

static size_t in_use(void)
{
	return noted_count < REMEMBERED ? noted_count : REMEMBERED;
}

bool limpet_footprint_has(pid_t pid, int fd)
{
	struct stat status;

	if (!noted_count || !find(pid, fd, &status))
		return false;
	for (size_t i = 0; i < in_use(); i++)
		if (noted[i].device == status.st_dev && noted[i].inode == status.st_ino)
			return true;
	return false;
}

bool limpet_footprint_has_inode(uint64_t inode)
{
	for (size_t i = 0; i < in_use(); i++)
		if (noted[i].inode == inode)
			return true;
	return false;
}
