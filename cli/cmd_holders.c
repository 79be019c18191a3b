/* `limpet holders`: who holds a block of a live process's heap, or the objects of a C++ class. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/holders_print.h"
#include "cli/ui.h"
#include "cli/variable_names.h"
#include "injector/proc/processes.h"
#include "injector/proc/target_process.h"

static const char help_usage[] =
	"Usage: limpet holders [OPTIONS] PID ADDRESS\n"
	"       limpet holders [OPTIONS] --type CLASS PID\n"
	"Shows who holds a block of a process's heap, or the objects of a C++ class:\n"
	"chains of pointers that lead to it from variables and stacks, and how much\n"
	"would be free without it. Reads from outside: the process is not stopped and\n"
	"nothing in it is changed.\n";
static const char help_end[] =
	"Exit status: 0 done, 1 no such process or block, or no permission, 2 usage.\n"
	"More: man limpet-holders\n";

struct holders_options {
	pid_t pid;
	uint64_t address;
	const char *type; /* NULL: the address */
	bool json;
};

/* ------------------------------------------------------------------ what is wanted */

static int fail_unknown(const struct limpet_holders_facts *facts, struct limpet_err *err)
{
	if (!facts->has_glibc)
		return limpet_err_set(err, -ENOTSUP,
				      "this process has no heap of glibc's malloc, and only its "
				      "blocks are known");
	if (facts->is_late)
		return limpet_err_set(err, -ENOTSUP,
				      "there was no time, or no room, for all blocks");
	return limpet_err_set(err, -EAGAIN,
			      "the lists of free blocks changed each time they were read; try "
			      "again");
}

static int fail_address(const struct limpet_holders *holders, uint64_t address,
			struct limpet_err *err)
{
	struct limpet_holder_root root;
	LIMPET_FREE char *place = NULL;

	limpet_holders_place(holders, address, &root);
	if (root.kind == LIMPET_PLACE_NOTHING)
		return limpet_err_set(err, -ENOENT, "nothing is mapped at 0x%" PRIx64, address);
	if (root.kind == LIMPET_PLACE_HEAP)
		return limpet_err_set(err, -ENOENT,
				      "0x%" PRIx64 " is in the heap, but in no block in use: it is "
				      "free, or malloc's own",
				      address);
	place = limpet_holders_place_words(&root);
	return limpet_err_set(err, -ENOENT, "0x%" PRIx64 " is in no block of the heap: %s", address,
			      place ? place : "?");
}

static bool is_class(void *context, const char *symbol)
{
	LIMPET_FREE char *name = limpet_holders_class_of(symbol);

	return name && !strcmp(name, context);
}

/* Types that exist: one that is meant perhaps, or else those with most bytes. */
enum { SUGGESTIONS = 5, COMPARED = 4096 };

static void suggest(const struct limpet_holders *holders, const char *type, struct limpet_err *err)
{
	const struct limpet_holder_type *list;
	const size_t count = limpet_holders_types(holders, &list);
	const size_t compared = count < COMPARED ? count : COMPARED;
	const char **names = calloc(compared + 1, sizeof(*names)), *nearest;
	size_t used = 0;

	for (size_t i = 0; names && i < compared; i++)
		names[i] = limpet_holders_class_of(list[i].symbol) ?: strdup("");
	nearest = names ? limpet_ui_nearest(type, names) : NULL;
	if (nearest)
		snprintf(err->hint, sizeof(err->hint), "did you mean '%s'?", nearest);
	else if (compared)
		used += (size_t)snprintf(err->hint, sizeof(err->hint), "there are objects of");
	for (size_t i = 0; names && used && i < compared && i < SUGGESTIONS; i++)
		if (used + strlen(names[i]) + 4 < sizeof(err->hint))
			used += (size_t)snprintf(err->hint + used, sizeof(err->hint) - used,
						 "%s %s", i ? "," : "", names[i]);
	for (size_t i = 0; names && i < compared; i++)
		free((char *)(uintptr_t)names[i]);
	free(names);
}

static int fail_type(const struct limpet_holders *holders, const char *type, int error,
		     struct limpet_err *err)
{
	if (error != -ENOENT)
		return limpet_err_set(err, error, "cannot read the heap: %s", strerror(-error));
	limpet_err_set(err, error,
		       "no object of '%s' was found: only classes with virtual functions are "
		       "known, by the symbols of their vtables",
		       type);
	suggest(holders, type, err);
	return error;
}

static int choose(const struct holders_options *options, struct limpet_holders *holders,
		  struct limpet_err *err)
{
	int error;

	if (!limpet_holders_facts(holders)->is_known)
		return fail_unknown(limpet_holders_facts(holders), err);
	if (!options->type) {
		error = limpet_holders_choose(holders, options->address);
		return error ? fail_address(holders, options->address, err) : 0;
	}
	error = limpet_holders_choose_type(holders, is_class, (void *)(uintptr_t)options->type);
	return error ? fail_type(holders, options->type, error, err) : 0;
}

/* ------------------------------------------------------------------ what is found */

static void name_root(struct limpet_holders *holders, struct limpet_variable_names *names,
		      struct limpet_holders_chain_shown *shown)
{
	const struct limpet_holder_root *root = &shown->chain.root;
	uint64_t end;

	shown->has_variable =
		root->kind == LIMPET_PLACE_DATA &&
		limpet_variable_names_find(names, root->module, root->address, &shown->variable);
	if (!shown->has_variable)
		return;
	end = shown->variable.start + shown->variable.bytes;
	/* One chain for an array of pointers. */
	limpet_holders_leave_out(holders, shown->variable.start, end);
	shown->has_retained = !limpet_holders_facts(holders)->is_cut;
	if (shown->has_retained)
		shown->retained =
			limpet_holders_retained_by(holders, shown->variable.start, end, true);
}

static int find_chains(struct limpet_holders *holders, struct limpet_variable_names *names,
		       struct limpet_holders_shown *shown)
{
	int found = 1;

	while (shown->count < LIMPET_HOLDERS_CHAINS && found > 0) {
		struct limpet_holders_chain_shown *chain = &shown->chains[shown->count];

		found = limpet_holders_next(holders, &chain->chain);
		if (found > 0) {
			shown->count++;
			name_root(holders, names, chain);
		}
	}
	return found < 0 ? found : 0;
}

static int show_holders(const struct holders_options *options, const struct limpet_target *target,
			struct limpet_holders *holders, struct limpet_err *err)
{
	struct limpet_variable_names names = {.target = target};
	struct limpet_holders_shown shown = {.pid = options->pid,
					     .facts = limpet_holders_facts(holders),
					     .type = options->type,
					     .chosen = limpet_holders_chosen(holders)};
	struct limpet_proc_status process;
	int status, error;

	shown.command = limpet_proc_status_read(options->pid, &process) == 0 ? process.name : NULL;
	limpet_holders_block(holders, &shown.block);
	error = find_chains(holders, &names, &shown);
	if (error)
		return limpet_err_set(err, error, "out of memory");
	shown.retained = limpet_holders_retained(holders);
	limpet_ui_busy(NULL);
	status = options->json ? limpet_holders_print_json(&shown)
			       : limpet_holders_print_text(&shown);
	for (size_t i = 0; i < shown.count; i++)
		limpet_holder_chain_done(&shown.chains[i].chain);
	limpet_variable_names_done(&names);
	return status;
}

static int show(const struct holders_options *options)
{
	struct limpet_target target;
	struct limpet_holders *holders = NULL;
	struct limpet_err err = {0};
	int status;

	(void)!limpet_target_open(options->pid, &target, NULL); /* the reading says why not */
	limpet_ui_busy("searching memory for pointers...");
	status = limpet_holders_read(&target, NULL, &holders, &err);
	if (!status)
		status = choose(options, holders, &err);
	if (!status)
		status = show_holders(options, &target, holders, &err);
	limpet_ui_busy(NULL);
	limpet_holders_free(holders);
	limpet_target_close(&target);
	return status < 0 ? limpet_ui_fail(&err, LIMPET_EXIT_FAILED) : status;
}

/* ------------------------------------------------------------------ the command line */

static const struct limpet_option option_list[] = {
	{"type", 0, "CLASS", "all objects of this C++ class, as explain --objects names it", 't',
	 NULL},
	LIMPET_LINE_FLAG("json", struct holders_options, json, "for programs; unknown is null"),
	{0},
};

static int parse_option(int option, void *context)
{
	struct holders_options *options = context;

	(void)option;
	if (!*optarg)
		return limpet_ui_usage("holders", "--type needs the name of a class");
	options->type = optarg;
	return LIMPET_EXIT_OK;
}

static int parse_address(const char *text, uint64_t *ret_address)
{
	char *end;

	errno = 0;
	*ret_address = strtoull(text, &end, 16);
	if (errno || end == text || *end || *text == '-' || *text == '+')
		return limpet_ui_usage("holders", "not an address such as 0x55d0c3a1b2c0: '%s'",
				       text);
	return LIMPET_EXIT_OK;
}

static int parse_operands(int count, char **operands, void *context)
{
	struct holders_options *options = context;
	int status;

	if (!count)
		return limpet_ui_usage("holders", "missing PID");
	status = limpet_line_parse_pid(operands[0], &options->pid);
	if (status != LIMPET_EXIT_OK)
		return status;
	if (options->type && count > 1)
		return limpet_ui_usage("holders", "either an address or --type: '%s'", operands[1]);
	if (!options->type && count == 1)
		return limpet_ui_usage("holders", "missing ADDRESS, or --type CLASS");
	if (count > 2)
		return limpet_ui_usage("holders", "unexpected argument '%s'", operands[2]);
	return options->type ? (int)LIMPET_EXIT_OK : parse_address(operands[1], &options->address);
}

static const struct limpet_line command_line = {
	.name = "holders",
	.takes = LIMPET_TAKES_PROCESS,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

int limpet_cmd_holders(int argc, char **argv)
{
	struct holders_options options = {0};
	int status;

	if (!limpet_line_parse(&command_line, argc, argv, &options, &status))
		return status;
	return show(&options);
}
