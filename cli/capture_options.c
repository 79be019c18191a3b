#include "cli/capture_options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include "cli/command_line.h"
#include "cli/settings.h"
#include "cli/ui.h"
#include "common/sample.h"
#include "common/units.h"

/* With less there is no room for useful tables. */
#define MEMORY_MIN_BYTES (UINT64_C(1) << 20)
/* More than any machine has: keeps later sums of sizes from overflowing. */
#define MEMORY_MAX_BYTES (UINT64_C(1) << 46)

#define COMMON_HELP                                                                           \
	LIMPET_CAPTURE_HELP                                                                   \
	"      --sample BYTES      record one allocation per BYTES, estimate the rest\n"      \
	"      --max-size SIZE     of the trace: the newest events stay, and sums of all\n"   \
	"      --compact           only sums per minute\n"                                    \
	"      --follow-fork       children, too, each into its own trace\n"                  \
	"      --alloc-functions FILE    the program's own allocators\n"                      \
	"      --no-seal           append no symbols\n"                                       \
	"      --with-command-line       store the program's arguments, too\n"                \
	"      --attach-timeout DUR      give up after this long; default: 10s\n"             \
	"      --memory BYTES      limit in the process; limpet takes eight times as much;\n" \
	"                          default: 64MiB\n"                                          \
	"      --on-overload WHAT        at overload: drop events (default), sample, or\n"    \
	"                                wait (stalls the program; for tests, batch jobs)\n"  \
	"      --partial           accept an allocator that is out of reach\n"                \
	"      --assume-seccomp-ok       accept a filter that cannot be read\n"               \
	"      --debug             each step in the process, on standard error\n"             \
	"  -h, --help              this text\n"                                               \
	"\n"

static const char attach_help[] =
	"Usage: limpet attach [OPTIONS] PID\n"
	"Watches the heap of a running process until Ctrl-C, `limpet stop` or its end.\n"
	"\n"
	"      --background        go on in the background\n"
	"      --uprobes           watch calls to find an allocator (see the manual)\n" COMMON_HELP
	"Exit status: 0 done, 1 failed, 2 usage, 3 refused, 4 captured with losses,\n"
	"5 captured but the agent stays dormant. More: man limpet-attach\n";

static const char run_help[] =
	"Usage: limpet run [OPTIONS] [--] COMMAND [ARGUMENT...]\n"
	"Runs a command and captures its heap from the entry point on. Input, output,\n"
	"signals and exit status are the command's.\n"
	"\n" COMMON_HELP
	"Exit status: the command's, 128+N for signal N; 2 usage, 125 limpet failed,\n"
	"126 not executable, 127 not found. More: man limpet-run\n";

enum {
	OPT_SAMPLE = 256,
	OPT_ALLOC_FUNCTIONS,
	OPT_MAX_SIZE,
	OPT_MEMORY,
	OPT_ON_OVERLOAD,
	OPT_ATTACH_TIMEOUT,
	OPT_LIFELINE
};

/* Of run and attach. */
#define CAPTURE_OPTIONS                                                                       \
	{"output", required_argument, NULL, 'o'}, {"duration", required_argument, NULL, 'd'}, \
		{"quiet", no_argument, NULL, 'q'}, {"help", no_argument, NULL, 'h'},          \
		{"debug", no_argument, NULL, LIMPET_LINE_DEBUG},                              \
		{"sample", required_argument, NULL, OPT_SAMPLE},                              \
		{"alloc-functions", required_argument, NULL, OPT_ALLOC_FUNCTIONS},            \
		{"max-size", required_argument, NULL, OPT_MAX_SIZE},                          \
		LIMPET_LINE_FLAG("compact", struct limpet_capture_options, config.compact),   \
		{"memory", required_argument, NULL, OPT_MEMORY},                              \
		{"on-overload", required_argument, NULL, OPT_ON_OVERLOAD},                    \
		{"attach-timeout", required_argument, NULL, OPT_ATTACH_TIMEOUT},              \
		LIMPET_LINE_FLAG("no-seal", struct limpet_capture_options, no_seal),          \
		LIMPET_LINE_FLAG("partial", struct limpet_capture_options, config.partial),   \
		LIMPET_LINE_FLAG("with-command-line", struct limpet_capture_options,          \
				 config.with_command_line),                                   \
		LIMPET_LINE_FLAG("assume-seccomp-ok", struct limpet_capture_options,          \
				 config.assume_seccomp_ok),                                   \
		LIMPET_LINE_FLAG("follow-fork", struct limpet_capture_options, follow_fork)

static const struct option run_options[] = {CAPTURE_OPTIONS, {0}};
static const struct option attach_options[] = {
	CAPTURE_OPTIONS,
	/* --lifeline is for a limpet that is started by another one, and not documented. */
	LIMPET_LINE_FLAG("background", struct limpet_capture_options, background),
	LIMPET_LINE_FLAG("uprobes", struct limpet_capture_options, uprobes),
	{"lifeline", required_argument, NULL, OPT_LIFELINE},
	{0},
};

/* These return LIMPET_EXIT_OK, or LIMPET_EXIT_USAGE after a message. */

int limpet_capture_parse_duration(const char *option, const char *text, uint64_t *ret)
{
	struct limpet_err err;
	uint64_t ns;
	int result = limpet_units_parse_duration(text, &ns);

	if (result == 0 && ns > 0) {
		*ret = ns;
		return LIMPET_EXIT_OK;
	}
	limpet_err_set(&err, -EINVAL, "%s: %s: '%s'", option,
		       result == 0         ? "must be greater than 0"
		       : result == -ERANGE ? "too long"
					   : "not a duration",
		       text);
	limpet_err_hint(&err, "write 50ms, 90s, 10m or 1h30m; a bare number is seconds");
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}

int limpet_capture_parse_output(const char *text, const char **ret)
{
	if (!*text)
		return limpet_ui_usage(NULL, "--output: the name is empty");
	if (!strcmp(text, "-"))
		return limpet_ui_usage(NULL, "--output: a trace cannot go to standard "
					     "output: it is not written in one go (for a "
					     "file of this name: ./-)");
	*ret = text;
	return LIMPET_EXIT_OK;
}

static int parse_memory(const char *option, const char *text, uint64_t min_bytes, uint64_t *ret)
{
	char least[LIMPET_UNITS_TEXT], words[sizeof(least) + 16];
	struct limpet_err err;
	uint64_t bytes;
	int result = limpet_units_parse_bytes(text, &bytes);

	if (result == 0 && bytes >= min_bytes && bytes <= MEMORY_MAX_BYTES) {
		*ret = bytes;
		return LIMPET_EXIT_OK;
	}
	limpet_units_format_bytes(least, min_bytes);
	snprintf(words, sizeof(words), "less than %s", least);
	limpet_err_set(&err, -EINVAL, "%s: %s: '%s'", option,
		       result == -EINVAL                               ? "not a size"
		       : result == -ERANGE || bytes > MEMORY_MAX_BYTES ? "too much"
								       : words,
		       text);
	limpet_err_hint(&err, "write 64MiB, 1.5GiB or 2G (the same as 2GiB)");
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}

int limpet_capture_parse_memory(const char *text, uint64_t *ret)
{
	return parse_memory("--memory", text, MEMORY_MIN_BYTES, ret);
}

static int parse_sample(const char *text, uint64_t *ret)
{
	uint64_t bytes;
	int result = limpet_units_parse_bytes(text, &bytes);
	struct limpet_err err;

	if (result == 0 && bytes > 0 && bytes <= LIMPET_SAMPLE_MAX_BYTES) {
		*ret = bytes;
		return LIMPET_EXIT_OK;
	}
	limpet_err_set(&err, -EINVAL, "--sample: %s: '%s'",
		       result == -EINVAL ? "not a size"
		       : result || bytes ? "more than 1TiB"
					 : "must be greater than 0",
		       text);
	limpet_err_hint(&err, "write 64KiB or 1MiB; leave it out to record everything");
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}

static const char *const overload_words[] = {
	[LIMPET_OVERLOAD_DROP] = "drop",
	[LIMPET_OVERLOAD_WAIT] = "wait",
	[LIMPET_OVERLOAD_SAMPLE] = "sample",
};

static int parse_overload(const char *text, struct limpet_capture_config *ret)
{
	size_t found = 0;

	while (found < LIMPET_COUNT_OF(overload_words) && strcmp(overload_words[found], text) != 0)
		found++;
	if (found == LIMPET_COUNT_OF(overload_words))
		return limpet_ui_usage(
			NULL, "invalid value '%s' for --on-overload: drop, wait or sample", text);
	ret->on_overload = (enum limpet_overload)found;
	ret->sampling.overload_bytes =
		found == LIMPET_OVERLOAD_SAMPLE ? LIMPET_SAMPLE_OVERLOAD_BYTES : 0;
	return LIMPET_EXIT_OK;
}

int limpet_capture_parse_alloc_functions(const char *path, const struct limpet_entry_list **ret)
{
	static struct limpet_entry_list list;
	struct limpet_err err = {0};

	if (limpet_entry_list_read(path, &list, &err) < 0)
		return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
	*ret = &list;
	return LIMPET_EXIT_OK;
}

static int parse_lifeline(const char *text, struct limpet_fork *ret)
{
	char *end;

	ret->start_ticks = strtoull(text, &end, 10);
	ret->control_page = *end ? strtoull(end + 1, &end, 16) : 0;
	ret->image_inode = *end ? strtoull(end + 1, &end, 10) : 0;
	if (ret->start_ticks && ret->control_page && ret->image_inode && !*end)
		return LIMPET_EXIT_OK;
	return limpet_ui_usage("attach", "--lifeline is for limpet's own use");
}

static int take_option(int option, void *context)
{
	struct limpet_capture_options *o = context;

	switch (option) {
	case 'o':
		return limpet_capture_parse_output(optarg, &o->config.output);
	case 'd':
		return limpet_capture_parse_duration("--duration", optarg, &o->config.duration_ns);
	case OPT_SAMPLE:
		return parse_sample(optarg, &o->config.sampling.bytes);
	case OPT_ALLOC_FUNCTIONS:
		o->alloc_functions = optarg;
		return limpet_capture_parse_alloc_functions(optarg, &o->config.entry_list);
	case OPT_MAX_SIZE:
		return parse_memory("--max-size", optarg, LIMPET_CAPTURE_MAX_SIZE_MIN_BYTES,
				    &o->config.max_bytes);
	case OPT_MEMORY:
		return limpet_capture_parse_memory(optarg, &o->config.agent_memory_bytes);
	case OPT_ON_OVERLOAD:
		return parse_overload(optarg, &o->config);
	case OPT_ATTACH_TIMEOUT:
		return limpet_capture_parse_duration("--attach-timeout", optarg,
						     &o->config.attach_timeout_ns);
	case OPT_LIFELINE:
		return parse_lifeline(optarg, &o->forked);
	}
	return LIMPET_EXIT_OK;
}

/* Rejects options that exclude each other. */
static int check_together(const struct limpet_capture_options *o)
{
	const char *option = o->config.compact ? "--compact" : "--max-size", *other = NULL;
	struct limpet_err err;

	if ((o->config.compact || o->config.max_bytes) &&
	    o->config.on_overload == LIMPET_OVERLOAD_SAMPLE)
		other = "--on-overload sample";
	else if ((o->config.compact || o->config.max_bytes) && o->config.sampling.bytes)
		other = "--sample";
	else if (o->config.compact && o->config.max_bytes)
		other = "--max-size";
	if (other) {
		limpet_err_set(&err, -EINVAL, "%s and %s cannot be used together", option, other);
		limpet_err_hint(&err, "each keeps a trace small by itself: leave one out");
		return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
	}
	if (o->config.sampling.bytes && o->config.on_overload == LIMPET_OVERLOAD_SAMPLE)
		return limpet_ui_usage(
			NULL,
			"--on-overload sample: with --sample, nothing but samples is recorded");
	return LIMPET_EXIT_OK;
}

static int take_pid(int count, char **operands, void *context)
{
	struct limpet_capture_options *o = context;
	struct limpet_err err;

	if (count && limpet_line_parse_pid(operands[0], &o->pid) != LIMPET_EXIT_OK)
		return LIMPET_EXIT_USAGE;
	if (count > 1)
		return limpet_ui_usage("attach",
				       "only one PID is accepted: unexpected argument '%s'; "
				       "`limpet attach NAME` lists the processes of that name",
				       operands[1]);
	if (!o->pid) {
		limpet_err_set(&err, -EINVAL, "attach: missing PID");
		limpet_err_hint(&err, "limpet attach PID; `limpet doctor` lists processes");
		return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
	}
	return check_together(o);
}

static int take_command(int count, char **operands, void *context)
{
	struct limpet_capture_options *o = context;

	if (!count)
		return limpet_ui_usage("run", "run: missing COMMAND");
	o->command = operands;
	return check_together(o);
}

bool limpet_capture_options_parse(enum limpet_capture_command command, int argc, char **argv,
				  struct limpet_capture_options *ret_options, int *ret_status)
{
	bool attach = command == LIMPET_CAPTURE_ATTACH;
	struct limpet_capture_options o = {
		.config.agent_memory_bytes = LIMPET_CAPTURE_AGENT_MEMORY_BYTES,
		.config.attach_timeout_ns = LIMPET_CAPTURE_ATTACH_TIMEOUT_NS,
	};
	const struct limpet_line line = {
		.name = attach ? "attach" : "run",
		.help = attach ? attach_help : run_help,
		/* The command's own options are not limpet's: run stops at the first operand. */
		.short_options = attach ? ":o:d:qh" : "+:o:d:qh",
		.long_options = attach ? attach_options : run_options,
		.take_option = take_option,
		.take_operands = attach ? take_pid : take_command,
	};

	if (!limpet_line_parse(&line, argc, argv, &o, ret_status))
		return false;
	o.config.collector_memory_bytes =
		o.config.agent_memory_bytes * LIMPET_CAPTURE_COLLECTOR_SHARE;
	*ret_status = limpet_settings_take(&o.config);
	if (*ret_status != LIMPET_EXIT_OK)
		return false;
	o.forked.pid = o.pid;
	o.config.forked = o.forked.start_ticks != 0;
	*ret_options = o;
	return true;
}

/* ------------------------------------------------------------------ options to command line */

static void add_word(struct limpet_capture_words *words, const char *word)
{
	char *copy = strdup(word);

	assert(words->count + 1 < LIMPET_COUNT_OF(words->list));
	if (copy)
		words->list[words->count++] = copy;
	words->failed |= !copy;
}

static void add_option(struct limpet_capture_words *words, const char *option, const char *value)
{
	if (value) {
		add_word(words, option);
		add_word(words, value);
	}
}

static void add_number(struct limpet_capture_words *words, const char *option, uint64_t value,
		       const char *unit)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64 "%s", value, unit);
	add_option(words, option, value ? text : NULL);
}

/* --background is left out: the first limpet went into the background, and its children with it. */
static void add_flags(struct limpet_capture_words *words, const struct limpet_capture_options *o)
{
	const int background =
		LIMPET_LINE_FIRST_FLAG + (int)offsetof(struct limpet_capture_options, background);
	char text[32];

	for (const struct option *option = attach_options; option->name; option++) {
		snprintf(text, sizeof(text), "--%s", option->name);
		if (option->val >= LIMPET_LINE_FIRST_FLAG && option->val != background &&
		    ((const bool *)o)[option->val - LIMPET_LINE_FIRST_FLAG])
			add_word(words, text);
	}
}

void limpet_capture_options_write(const struct limpet_capture_options *o,
				  const struct limpet_fork *fork, const char *trace,
				  struct limpet_capture_words *ret)
{
	char lifeline[80], pid[16];

	memset(ret, 0, sizeof(*ret));
	snprintf(lifeline, sizeof(lifeline), "%" PRIu64 ",%" PRIx64 ",%" PRIu64, fork->start_ticks,
		 fork->control_page, fork->image_inode);
	add_word(ret, "limpet");
	add_word(ret, "attach");
	add_word(ret, "--quiet");
	add_option(ret, "--lifeline", lifeline);
	add_option(ret, "--output", trace);
	add_number(ret, "--sample", o->config.sampling.bytes, "");
	add_number(ret, "--max-size", o->config.max_bytes, "");
	add_number(ret, "--memory", o->config.agent_memory_bytes, "");
	add_number(ret, "--attach-timeout", (o->config.attach_timeout_ns + 999999) / 1000000, "ms");
	add_option(ret, "--on-overload", overload_words[o->config.on_overload]);
	add_option(ret, "--alloc-functions", o->alloc_functions);
	add_flags(ret, o);
	snprintf(pid, sizeof(pid), "%d", fork->pid);
	add_word(ret, pid);
}

void limpet_capture_words_done(struct limpet_capture_words *words)
{
	for (unsigned i = 0; i < words->count; i++)
		free(words->list[i]);
}
