#include "cli/live_target.h"

#include <stdio.h>
#include <string.h>

#include "injector/proc/proc.h"

static bool is_same_boot(const char *boot_id)
{
	char here[64] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file)
		return false;
	if (!fgets(here, sizeof(here), file))
		here[0] = '\0';
	fclose(file);
	here[strcspn(here, "\n")] = '\0';
	return here[0] && !strcmp(here, boot_id);
}

bool limpet_cli_target_is_alive(const struct limpet_trace_target *target)
{
	uint64_t ticks;

	return target->known && is_same_boot(target->boot_id) &&
	       limpet_proc_start_time((pid_t)target->pid, &ticks) == 0 &&
	       ticks == target->start_ticks;
}
