/* `make reader`: the commands that need a process, in a limpet that only reads traces. Linked in
 * place of cmd_attach.c and the others. */
#include "cli/commands.h"
#include "cli/explain_process.h"
#include "cli/libraries.h"
#include "cli/ui.h"

static int refuse(const char *command)
{
	struct limpet_err err = {0};

	limpet_err_set(
		&err, -ENOSYS,
		"this limpet only reads traces: '%s' needs a process, and limpet for x86-64 Linux",
		command);
	return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
}

#define NEEDS_PROCESS(name)                          \
	int limpet_cmd_##name(int argc, char **argv) \
	{                                            \
		(void)argc;                          \
		return refuse(argv[0]);              \
	}

NEEDS_PROCESS(attach)
NEEDS_PROCESS(collect)
NEEDS_PROCESS(demo)
NEEDS_PROCESS(doctor)
NEEDS_PROCESS(holders)
NEEDS_PROCESS(leaks)
NEEDS_PROCESS(mark)
NEEDS_PROCESS(pages)
NEEDS_PROCESS(run)
NEEDS_PROCESS(stacks)
NEEDS_PROCESS(status)
NEEDS_PROCESS(stop)

int limpet_explain_process(const struct limpet_explain_process *options)
{
	(void)options;
	return refuse("explain PID");
}

void limpet_libraries_print_process(void)
{
}
