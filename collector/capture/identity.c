#include "collector/capture/identity.h"

#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

void limpet_identity_read(const struct limpet_target *target, bool with_command_line,
			  struct limpet_identity *identity, struct limpet_recorder_options *options)
{
	struct limpet_cgroup cgroup;

	identity->command[0] = identity->executable[0] = '\0';
	if (with_command_line)
		limpet_proc_command_line(target, identity->command, sizeof(identity->command));
	else
		limpet_proc_argv0(target, identity->command, sizeof(identity->command));
	limpet_proc_executable(target->pid, identity->executable, sizeof(identity->executable));
	if (limpet_container_id(target, identity->container) == 0)
		options->container = identity->container;
	if (limpet_cgroup_find(target, &cgroup) == 0)
		(void)limpet_cgroup_limit(&cgroup, &options->cgroup_limit_bytes);
	options->wall_ns = limpet_clock_ns(CLOCK_REALTIME);
	options->command = identity->command;
	options->executable = identity->executable;
}
