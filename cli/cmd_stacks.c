/* `limpet stacks`: where every thread of a live process stands. */
#include <errno.h>
#include <inttypes.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/model/frames.h"
#include "analyzer/symbols/demangle.h"
#include "analyzer/text/json_printer.h"
#include "analyzer/text/report_printer.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/stack_names.h"
#include "cli/ui.h"
#include "common/base_name.h"
#include "common/plain_text.h"
#include "injector/preflight/preflight.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/step.h"
#include "injector/stacks/stacks.h"

static const char help_usage[] =
	"Usage: limpet stacks [OPTIONS] PID\n"
	"Shows where every thread of a process stands: its state, its system call, and\n"
	"its stack, with inlined functions, files and lines. Each thread is stopped for\n"
	"as long as it takes to copy its registers and its stack, one after the other;\n"
	"nothing is loaded into the process.\n";
static const char help_end[] = "Exit status: 0 done, 1 failed, 2 usage, 3 refused.\n"
			       "More: man limpet-stacks\n";

/* ------------------------------------------------------------------ words */

static const struct {
	const char *word, *text;
} missing_words[] = {
	[LIMPET_STACK_THERE] = {NULL, NULL},
	[LIMPET_STACK_UNINTERRUPTIBLE] = {"uninterruptible",
					  "it was not stopped: its sleep is uninterruptible"},
	[LIMPET_STACK_DISTURBED] = {"system-call",
				    "it was not stopped: its system call would notice that"},
	[LIMPET_STACK_TRACED] = {"traced", "another process traces it"},
	[LIMPET_STACK_LATE] = {"late", "it did not stop in time"},
	[LIMPET_STACK_ENDED] = {"ended", "it has ended, and others go on"},
	[LIMPET_STACK_OF_KERNEL] = {"kernel", "it runs no code of the program"},
	[LIMPET_STACK_UNREADABLE] = {"unreadable", "its stack pointer leads to no memory"},
	[LIMPET_STACK_NO_ROOM] = {"room", "limpet copies 512 MiB of stacks at most"},
	[LIMPET_STACK_NO_READER] = {"unwinder",
				    "the process that unwinds could not be confined, or ended"},
};

static const char *const finder_words[] = {
	[LIMPET_FOUND_BY_REGISTERS] = "registers",
	[LIMPET_FOUND_BY_LIBUNWIND] = "libunwind",
	[LIMPET_FOUND_BY_TABLE] = "table",
	[LIMPET_FOUND_BY_FP] = "frame-pointer",
};

static const struct {
	char state;
	const char *word, *text;
} states[] = {
	{'R', "running", "runs"},       {'S', "sleeping", "sleeps"},
	{'I', "sleeping", "sleeps"},    {'D', "uninterruptible", "sleeps uninterruptibly"},
	{'T', "stopped", "is stopped"}, {'t', "traced", "is held by a tracer"},
	{'Z', "ended", "has ended"},    {'X', "ended", "has ended"},
};

static size_t state_of(const struct limpet_stack_thread *thread)
{
	size_t i = 0;

	while (i + 1 < LIMPET_COUNT_OF(states) && states[i].state != thread->state)
		i++;
	return i;
}

/* malloc'ed; NULL: it is in none, or in one that is newer than libseccomp. */
static char *call_name(const struct limpet_stack_thread *thread)
{
	return thread->system_call < 0 ? NULL
				       : seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE,
									  (int)thread->system_call);
}

/* ------------------------------------------------------------------ text */

struct printing {
	const struct limpet_stacks *stacks;
	const struct limpet_stack_names *names;
	size_t width; /* 0: lines are not cut */
	bool debug;
};

static void print_head(const struct limpet_stack_thread *thread)
{
	LIMPET_FREE char *call = call_name(thread);
	char name[LIMPET_PROC_NAME_BYTES];

	snprintf(name, sizeof(name), "%s", thread->name);
	printf("%sthread %d %s%s: %s", limpet_ui_style(stdout, LIMPET_UI_BOLD), thread->tid,
	       limpet_ui_clean(name), limpet_ui_style(stdout, LIMPET_UI_PLAIN),
	       states[state_of(thread)].text);
	if (call)
		printf(" in %s(2)", call);
	else if (thread->system_call >= 0)
		printf(" in system call %ld", thread->system_call);
	putchar('\n');
}

/* "  name (inlined)  place": where it is too long, the beginning of the name goes. */
static void print_line(const struct printing *printing, char *name, char *place, const char *note)
{
	const size_t taken = strlen(note) + 2;
	size_t columns = limpet_plain_text_columns(place);

	if (printing->width > taken) {
		const size_t room = printing->width - taken;

		if (columns > room / 2)
			limpet_printer_cut(place, room / 2, true);
		columns = limpet_plain_text_columns(place);
		limpet_printer_cut(name, room - (columns ? columns + 2 : 0), true);
	}
	printf("  %s%s", name, note);
	if (place[0])
		printf("  %s%s%s", limpet_ui_style(stdout, LIMPET_UI_DIM), place,
		       limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	putchar('\n');
}

static char *nameless(const struct limpet_stacks *stacks, const struct limpet_module *module,
		      uint64_t address)
{
	const struct limpet_map *map = limpet_proc_maps_find(&stacks->modules.maps, address);
	char *text;

	if (module ? asprintf(&text, "%s+0x%" PRIx64, limpet_base_name(module->path),
			      address - module->bias) < 0
		   : asprintf(&text, "%s 0x%" PRIx64,
			      limpet_frame_nameless(map && map->perms[2] == 'x'), address) < 0)
		return NULL;
	return text;
}

static char *place_of(const struct limpet_stack_name *name, const struct limpet_module *module)
{
	char *text = NULL;

	if (name && name->file && name->line) {
		if (asprintf(&text, "%s:%u", name->file, name->line) < 0)
			return NULL;
		return text;
	}
	return strdup(name && module ? limpet_base_name(module->path) : "");
}

/* `name`: NULL if none is known. */
static int print_function(const struct printing *printing, const struct limpet_stack_frame *frame,
			  const struct limpet_stack_name *name)
{
	const struct limpet_module *module =
		limpet_modules_find(&printing->stacks->modules, frame->address - 1);
	LIMPET_FREE char *function =
		frame->signal            ? strdup("(signal handler called)")
		: name && name->function ? limpet_demangle_shorten(name->function)
					 : nameless(printing->stacks, module, frame->address - 1);
	LIMPET_FREE char *place = place_of(name, module);
	char note[48];

	if (!function || !place)
		return -ENOMEM;
	snprintf(note, sizeof(note), "%s%s%s%s", name && name->inlined ? " (inlined)" : "",
		 printing->debug ? " [" : "", printing->debug ? finder_words[frame->finder] : "",
		 printing->debug ? "]" : "");
	print_line(printing, limpet_plain_text_clean(function), limpet_plain_text_clean(place),
		   note);
	return 0;
}

static int print_thread(const struct printing *printing, const struct limpet_stack_thread *thread)
{
	int error = 0;

	print_head(thread);
	if (thread->missing)
		printf("  (no stack: %s)\n", missing_words[thread->missing].text);
	for (uint32_t i = 0; i < thread->count && !error; i++) {
		const struct limpet_stack_name *list = NULL;
		size_t count = limpet_stack_names_at(printing->names, &thread->frames[i], &list);

		for (size_t j = 0; j < (count ? count : 1) && !error; j++)
			error = print_function(printing, &thread->frames[i],
					       count ? &list[j] : NULL);
	}
	if (thread->truncated)
		printf("  (outer frames are missing)\n");
	return error;
}

static int print_text(const struct limpet_stacks *stacks, const struct limpet_stack_names *names)
{
	const struct printing printing = {
		.stacks = stacks,
		.names = names,
		.width = isatty(STDOUT_FILENO) ? (size_t)limpet_ui_width(STDOUT_FILENO) : 0,
		.debug = limpet_step_is_watched(),
	};
	int error = 0;

	for (size_t i = 0; i < stacks->count && !error; i++) {
		if (i)
			putchar('\n');
		error = print_thread(&printing, &stacks->list[i]);
	}
	return error;
}

/* ------------------------------------------------------------------ JSON */

static json_t *function_json(const struct limpet_stacks *stacks,
			     const struct limpet_stack_frame *frame,
			     const struct limpet_stack_name *name)
{
	const struct limpet_module *module =
		limpet_modules_find(&stacks->modules, frame->address - 1);
	char offset[24];

	snprintf(offset, sizeof(offset), "0x%" PRIx64,
		 frame->address - 1 - (module ? module->bias : 0));
	return json_pack("{s:o, s:o, s:o, s:o, s:b, s:b, s:s, s:s}", "function",
			 limpet_json_text(name ? name->function : NULL), "file",
			 limpet_json_text(name ? name->file : NULL), "line",
			 limpet_json_known(name ? name->line : 0), "module",
			 limpet_json_text(module ? module->path : NULL), "inlined",
			 name && name->inlined, "signal", frame->signal != 0,
			 module ? "offset" : "address", offset, "found_by",
			 finder_words[frame->finder]);
}

static json_t *stack_json(const struct limpet_stacks *stacks,
			  const struct limpet_stack_names *names,
			  const struct limpet_stack_thread *thread)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < thread->count; i++) {
		const struct limpet_stack_name *list = NULL;
		size_t count = limpet_stack_names_at(names, &thread->frames[i], &list);

		for (size_t j = 0; j < (count ? count : 1); j++)
			array = limpet_json_append(array, function_json(stacks, &thread->frames[i],
									count ? &list[j] : NULL));
	}
	return array;
}

static json_t *thread_json(const struct limpet_stacks *stacks,
			   const struct limpet_stack_names *names,
			   const struct limpet_stack_thread *thread)
{
	LIMPET_FREE char *call = call_name(thread);
	json_t *object = json_object();

	object = limpet_json_set(object, "tid", json_integer(thread->tid));
	object = limpet_json_set(object, "name", limpet_json_text(thread->name));
	object = limpet_json_set(object, "state", json_string(states[state_of(thread)].word));
	object = limpet_json_set(object, "system_call", limpet_json_text(call));
	object = limpet_json_set(object, "stop_microseconds",
				 limpet_json_known((thread->stop_ns + 999) / 1000));
	object = limpet_json_set(object, "missing",
				 limpet_json_text(missing_words[thread->missing].word));
	object = limpet_json_set(object, "truncated", json_boolean(thread->truncated));
	return limpet_json_set(object, "stack", stack_json(stacks, names, thread));
}

static int print_json(const struct limpet_stacks *stacks, const struct limpet_stack_names *names,
		      const char *command)
{
	json_t *object = json_object(), *threads = json_array();

	for (size_t i = 0; i < stacks->count; i++)
		threads = limpet_json_append(threads, thread_json(stacks, names, &stacks->list[i]));
	object = limpet_json_set(object, "format", json_string("limpet-stacks"));
	object = limpet_json_set(object, "version", json_integer(1));
	object = limpet_json_set(object, "pid", json_integer(stacks->modules.target->pid));
	object = limpet_json_set(object, "command", limpet_json_text(command));
	return limpet_json_output(limpet_json_set(object, "threads", threads), LIMPET_EXIT_OK);
}

/* ------------------------------------------------------------------ the command */

struct stacks_options {
	pid_t pid, thread; /* thread 0: all */
	bool json;
};

static int print(const struct stacks_options *options, const struct limpet_stacks *stacks,
		 const char *command)
{
	struct limpet_stack_names *names;
	struct limpet_err err = {0};
	int status = LIMPET_EXIT_OK, error;

	limpet_ui_busy("looking up names");
	error = limpet_stack_names_new(stacks, &names);
	limpet_ui_busy(NULL);
	if (!error && options->json)
		status = print_json(stacks, names, command);
	else if (!error)
		error = print_text(stacks, names);
	if (!error)
		limpet_stack_names_free(names);
	if (stacks->without_libunwind)
		limpet_ui_warn("libunwind's process ended: limpet's own tables were used instead");
	if (!error)
		return limpet_ui_finish(status);
	limpet_err_set(&err, error, "out of memory");
	return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
}

static int show_target(const struct stacks_options *options, const struct limpet_target *target)
{
	const struct limpet_preflight_options wanted = {.stops_only = true};
	LIMPET_FREE struct limpet_preflight *preflight = malloc(sizeof(*preflight));
	struct limpet_stacks stacks = {.list = NULL};
	struct limpet_err err = {0};
	int status;

	if (!preflight) {
		limpet_err_set(&err, -ENOMEM, "out of memory");
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	if (limpet_preflight_run(target, &wanted, preflight, &err) < 0)
		return limpet_ui_fail(&err, (int)limpet_preflight_exit(preflight));
	if (limpet_stacks_read(target, options->thread, &stacks, &err) < 0)
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	status = print(options, &stacks, preflight->name);
	limpet_stacks_done(&stacks);
	return status;
}

static int show(const struct stacks_options *options)
{
	struct limpet_target target;
	int status;

	(void)!limpet_target_open(options->pid, &target, NULL); /* preflight says why not */
	status = show_target(options, &target);
	limpet_target_close(&target);
	return status;
}

static const struct limpet_option option_list[] = {
	{"thread", 0, "TID", "this thread alone", 't', NULL},
	LIMPET_LINE_FLAG("json", struct stacks_options, json, "for programs; unknown is null"),
	{0},
};

static int parse_option(int option, void *context)
{
	struct stacks_options *options = context;

	(void)option; /* --thread: there is no other */
	return limpet_line_parse_pid(optarg, &options->thread);
}

static int parse_operands(int count, char **operands, void *context)
{
	struct stacks_options *options = context;
	int status = limpet_line_expect_pid("stacks", count, operands, &options->pid);

	if (status == LIMPET_EXIT_OK && !options->pid)
		return limpet_ui_usage("stacks", "missing PID");
	return status;
}

static const struct limpet_line command_line = {
	.name = "stacks",
	.takes = LIMPET_TAKES_PROCESS,
	.usage = help_usage,
	.end = help_end,
	.options = option_list,
	.parse_option = parse_option,
	.parse_operands = parse_operands,
};

int limpet_cmd_stacks(int argc, char **argv)
{
	struct stacks_options options = {0};
	int status;

	if (!limpet_line_parse(&command_line, argc, argv, &options, &status))
		return status;
	return show(&options);
}
