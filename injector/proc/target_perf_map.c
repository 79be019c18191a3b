#include "injector/proc/target_process.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/open_file.h"
#include "injector/proc/proc.h"
#include "injector/proc/proc_files.h"

int limpet_target_open_perf_map(const struct limpet_target *target)
{
	LIMPET_CLOSE int fd = -1;
	char root[PATH_MAX], name[64];
	struct limpet_proc_status status;
	struct stat file;
	int code = limpet_proc_status_read(target->pid, &status);

	if (code == 0)
		code = limpet_proc_path(root, target->pid, "root");
	if (code < 0)
		return code;
	snprintf(name, sizeof(name), "tmp/perf-%d.map", status.ns_pid);
	/* Open in place: the file grows while the program runs. */
	fd = limpet_open_regular(root, name, LIMPET_OPEN_NO_LINKS | LIMPET_OPEN_IN_PLACE, &file);
	if (fd < 0)
		return limpet_take_fd(&fd);
	if (file.st_uid != status.fsuid && file.st_uid != 0)
		return -EPERM;
	code = limpet_target_check(target);
	return code == -ESRCH ? code : limpet_take_fd(&fd);
}
