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

void limpet_footprint_note(int fd)
{
	struct stat status;
	size_t at = noted_count % REMEMBERED;

	if (fd < 0 || fstat(fd, &status) < 0 || is_noted(&status))
		return;
	noted[at].device = status.st_dev;
	noted[at].inode = status.st_ino;
	noted_count++;
}

bool limpet_footprint_has(pid_t pid, int fd)
{
	char path[PATH_MAX];
	struct stat status;

	return noted_count && limpet_proc_path(path, pid, "fd/%d", fd) >= 0 &&
	       stat(path, &status) == 0 && is_noted(&status);
}

bool limpet_footprint_has_inode(uint64_t inode)
{
	for (size_t i = 0; i < in_use(); i++)
		if (noted[i].inode == inode)
			return true;
	return false;
}
