#include "cli/live_target.h"

#include <stdio.h>
#include <string.h>

#include "injector/proc/target_process.h"

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

bool limpet_cli_target_open(const struct limpet_trace_target *target, struct limpet_target *ret)
{
	if (!target->known || !is_same_boot(target->boot_id) ||
	    limpet_target_open((pid_t)target->pid, ret, NULL) < 0)
		return false;
	if (ret->start_ticks == target->start_ticks)
		return true;
	limpet_target_close(ret);
	return false;
}

bool limpet_cli_target_is_alive(const struct limpet_trace_target *target)
{
	struct limpet_target live;

	if (!limpet_cli_target_open(target, &live))
		return false;
	limpet_target_close(&live);
	return true;
}
