#include "explain/program.h"

#include <errno.h>

#include "injector/proc/proc.h"

int limpet_program_identify(pid_t pid, struct limpet_program_identity *ret)
{
	ret->image = limpet_proc_image(pid);
	return limpet_proc_start_time(pid, &ret->start_ticks);
}

int limpet_program_check(pid_t pid, const struct limpet_program_identity *before)
{
	struct limpet_program_identity now;
	int error = limpet_program_identify(pid, &now);

	if (error)
		return error;
	/* One that is ending has no image any more. */
	if (now.start_ticks != before->start_ticks || (before->image && !now.image))
		return -ESRCH;
	return now.image == before->image ? 0 : -ESTALE;
}
