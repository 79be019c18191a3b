#include "injector/proc/commit.h"

#include <errno.h>
#include <fcntl.h>

#include "injector/proc/proc.h"

#define STRICT 2

bool limpet_commit_is_strict(void)
{
	uint64_t mode;

	return limpet_proc_number_read("sys/vm/overcommit_memory", &mode) < 0 || mode == STRICT;
}

int limpet_commit_file(int file, uint64_t bytes)
{
	int answer;

	if (!limpet_commit_is_strict())
		return 0;
	do
		answer = fallocate(file, 0, 0, (off_t)bytes);
	while (answer < 0 && errno == EINTR);
	return answer < 0 ? limpet_errno() : 0;
}

int limpet_commit_explain(pid_t pid, struct limpet_err *err)
{
	limpet_err_set(err, -ENOSPC,
		       "process %d: the agent's memory would exceed what may be committed on this "
		       "machine (vm.overcommit_memory is 2)",
		       pid);
	limpet_err_hint(err, "use less: --memory 16MiB; what is left: CommitLimit less "
			     "Committed_AS in /proc/meminfo");
	return -ENOSPC;
}
