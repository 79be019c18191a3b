/* `limpet collect`: receives the traces of captures with -o unix:SOCKET. */
#include <errno.h>
#include <string.h>

#include "cli/capture_signals.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/ui.h"
#include "collector/receive/receiver.h"
#include "common/units.h"

#define KEEP_MIN_BYTES (UINT64_C(1) << 20)

static const char help_usage[] =
	"Usage: limpet collect [OPTIONS] SOCKET DIR --keep SIZE\n"
	"Receives traces of `limpet attach -o unix:SOCKET`, any number at once, also by\n"
	"`ssh -R` from other machines, and writes each to COMM.PID.HOST.limpet in DIR,\n"
	"until Ctrl-C or `limpet stop`. Root and you may send.\n";
static const char help_end[] =
	"`limpet status` lists what is being received, `limpet top FILE` shows it.\n"
	"Exit status: 0 done, 1 failed, 2 usage. More: man limpet-collect\n";

struct collect_options {
	const char *socket, *directory;
	uint64_t keep_bytes;
};

/* ------------------------------------------------------------------ messages */

static void print_listening(void *context)
{
	const struct collect_options *o = context;

	limpet_ui_note("listening at %s, receiving into %s", o->socket, o->directory);
}

static void print_began(void *context, const char *name)
{
	(void)context;
	limpet_ui_note("%s begins", name);
}

static void print_ended(void *context, const struct limpet_receiver_ended *ended)
{
	char size[LIMPET_UNITS_TEXT], from[64];

	(void)context;
	if (!ended->name) {
		snprintf(from, sizeof(from), "process %d of user %u", (int)ended->pid,
			 (unsigned)ended->uid);
		if (ended->why)
			limpet_ui_warn("nothing was kept of what %s sent: %s", from, ended->why);
		return;
	}
	limpet_units_format_bytes(size, ended->bytes);
	if (ended->why)
		limpet_ui_warn("%s ends after %s: %s", ended->name, size, ended->why);
	else if (!ended->whole)
		limpet_ui_warn("%s ends after %s: its sender went away", ended->name, size);
	else
		limpet_ui_note("%s is whole: %s", ended->name, size);
}

static void print_refused(void *context, pid_t pid, uid_t uid)
{
	(void)context;
	limpet_ui_warn("process %d of user %u was turned away: only root and you may send",
		       (int)pid, (unsigned)uid);
}

static void print_removed(void *context, const char *name)
{
	(void)context;
	limpet_ui_note("%s was removed, to keep to --keep", name);
}

/* ------------------------------------------------------------------ the command line */

static const struct limpet_option option_list[] = {
	{"keep", 0, "SIZE", "of all traces in DIR: the oldest are removed", 'k', NULL},
	LIMPET_LINE_QUIET("print warnings and errors only"),
	{0},
};

static int parse_option(int option, void *context)
{
	struct collect_options *o = context;
	struct limpet_err err;

	if (option != 'k' || (limpet_units_parse_bytes(optarg, &o->keep_bytes) == 0 &&
			      o->keep_bytes >= KEEP_MIN_BYTES))
		return LIMPET_EXIT_OK;
	limpet_err_set(&err, -EINVAL, "--keep: not a size of 1MiB or more: '%s'", optarg);
	limpet_err_hint(&err, "write 500MiB or 10G (the same as 10GiB)");
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}

static int parse_operands(int count, char **operands, void *context)
{
	struct collect_options *o = context;
	struct limpet_err err;

	if (count > 2)
		return limpet_ui_usage("collect", "unexpected argument '%s'", operands[2]);
	if (count < 2 || !o->keep_bytes) {
		limpet_err_set(&err, -EINVAL, "collect: missing %s",
			       !count      ? "SOCKET"
			       : count < 2 ? "DIR"
					   : "--keep SIZE");
		limpet_err_hint(&err, "limpet collect /run/limpet.sock traces --keep 10G");
		return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
	}
	o->socket = operands[0];
	o->directory = operands[1];
	return LIMPET_EXIT_OK;
}

static const struct limpet_line command = {
	.name = "collect",
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

int limpet_cmd_collect(int argc, char **argv)
{
	struct collect_options o = {0};
	struct limpet_receiver_options options = {.listening = print_listening,
						  .began = print_began,
						  .ended = print_ended,
						  .refused = print_refused,
						  .removed = print_removed,
						  .context = &o};
	struct limpet_err err = {0};
	int status;

	if (!limpet_line_parse(&command, argc, argv, &o, &status))
		return status;
	options.socket = o.socket;
	options.directory = o.directory;
	options.keep_bytes = o.keep_bytes;
	limpet_capture_signals_setup(0);
	options.interrupted = limpet_capture_interrupted();
	options.wait_mask = limpet_capture_wait_mask();
	if (limpet_receiver_run(&options, &err) < 0)
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	return LIMPET_EXIT_OK;
}
