#include "cli/capture_options.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/settings.h"
#include "cli/stream_output.h"
#include "cli/ui.h"
#include "common/sample.h"
#include "common/stream_name.h"
#include "common/units.h"

/* With less there is no room for useful tables. */
#define MEMORY_MIN_BYTES (UINT64_C(1) << 20)
/* More than any machine has: keeps later sums of sizes from overflowing. */
#define MEMORY_MAX_BYTES (UINT64_C(1) << 46)

static const char attach_usage[] =
	"Usage: limpet attach [OPTIONS] PID\n"
	"Watches the heap of a running process until Ctrl-C, `limpet stop` or its end.\n";
static const char run_usage[] =
	"Usage: limpet run [OPTIONS] [--] COMMAND [ARGUMENT...]\n"
	"Captures a command from its entry point on. Input, output, signals: its own.\n";
static const char run_end[] =
	"Exit status: the command's, 128+N for signal N; of limpet itself: man limpet-run\n";

enum {
	OPT_SAMPLE = LIMPET_CAPTURE_OPT_OWN,
	OPT_MAX_SIZE,
	OPT_MEMORY,
	OPT_COLLECTOR_MEMORY,
	OPT_LOAD,
	OPT_ON_OVERLOAD,
	OPT_ATTACH_TIMEOUT,
	OPT_LIFELINE
};

static const char *const overload_words[] = {
	[LIMPET_OVERLOAD_DROP] = "drop",
	[LIMPET_OVERLOAD_WAIT] = "wait",
	[LIMPET_OVERLOAD_SAMPLE] = "sample",
	NULL,
};

#define FLAG(name, member, help) LIMPET_LINE_FLAG(name, struct limpet_capture_options, member, help)
/* Of run and attach. */
#define OPTIONS_OF_BOTH                                                                              \
	LIMPET_CAPTURE_OPTIONS,                                                                      \
		{"sample",   0,   "BYTES", "one allocation per BYTES, the rest estimated",           \
		 OPT_SAMPLE, NULL},                                                                  \
		{"max-size",   0,   "SIZE", "of the trace: the newest events, and all sums",         \
		 OPT_MAX_SIZE, NULL},                                                                \
		FLAG("compact", config.compact, "only sums per minute"),                             \
		FLAG("leaks", config.leaks, "find lost blocks at the end"),                          \
		FLAG("follow-fork", follow_fork, "children, too, each into its own trace"),          \
		LIMPET_CAPTURE_FUNCTIONS_OPTION("an allocator's functions, or: search"),             \
		{"memory", 0, "BYTES", "limit in the process; default: 64MiB", OPT_MEMORY, NULL},    \
		{"on-overload", 0, "WHAT", "drop events (default), sample or wait", OPT_ON_OVERLOAD, \
		 overload_words},                                                                    \
		{"attach-timeout",   0,   "TIME", "give up after this long; default: 10s",           \
		 OPT_ATTACH_TIMEOUT, NULL},                                                          \
		FLAG("partial", config.partial, "accept an allocator out of reach"),                 \
		FLAG("assume-seccomp-ok", config.assume_seccomp_ok,                                  \
		     "accept a filter that cannot be read"),                                         \
		FLAG("with-command-line", config.with_command_line,                                  \
		     LIMPET_CAPTURE_COMMAND_LINE_HELP),                                              \
		FLAG("no-seal", no_seal, LIMPET_CAPTURE_NO_SEAL_HELP), LIMPET_LINE_DEBUG,            \
		LIMPET_LINE_HIDDEN("agent-memory", 0, "BYTES", OPT_MEMORY),                          \
		LIMPET_LINE_HIDDEN("collector-memory", 0, "BYTES", OPT_COLLECTOR_MEMORY),            \
		LIMPET_LINE_HIDDEN("load", 0, "WAY", OPT_LOAD),                                      \
		FLAG("addresses", config.addresses, NULL)

static const struct limpet_option run_options[] = {OPTIONS_OF_BOTH, {0}};
static const struct limpet_option attach_options[] = {
	OPTIONS_OF_BOTH,
	FLAG("background", background, "go on in the background"),
	LIMPET_LINE_HIDDEN("pid", 'p', "PID", 'p'),
	/* For a limpet that another one starts. */
	LIMPET_LINE_HIDDEN("lifeline", 0, "NUMBERS", OPT_LIFELINE),
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
	if (!strcmp(text, LIMPET_STREAM_UNIX))
		return limpet_ui_usage(NULL, "--output: the socket's path is missing");
	*ret = text;
	return LIMPET_EXIT_OK;
}

int limpet_capture_parse_label(const char *text, struct limpet_labels *labels)
{
	const char *why = limpet_labels_add(labels, text);

	return why ? limpet_ui_usage(NULL, "--label: the label '%s' %s", text, why)
		   : LIMPET_EXIT_OK;
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

static int parse_overload(const char *text, struct limpet_capture_config *ret)
{
	size_t found = 0;

	while (overload_words[found] && strcmp(overload_words[found], text) != 0)
		found++;
	if (!overload_words[found])
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

static int parse_option(int option, void *context)
{
	struct limpet_capture_options *o = context;

	switch (option) {
	case 'o':
		return limpet_capture_parse_output(optarg, &o->config.output);
	case 'd':
		return limpet_capture_parse_duration("--duration", optarg, &o->config.duration_ns);
	case LIMPET_CAPTURE_OPT_LABEL:
		return limpet_capture_parse_label(optarg, &o->config.labels);
	case OPT_SAMPLE:
		return parse_sample(optarg, &o->config.sampling.bytes);
	case LIMPET_CAPTURE_OPT_FUNCTIONS:
		o->search |= !strcmp(optarg, LIMPET_CAPTURE_SEARCH);
		if (!strcmp(optarg, LIMPET_CAPTURE_SEARCH))
			return LIMPET_EXIT_OK;
		o->alloc_functions = optarg;
		return limpet_capture_parse_alloc_functions(optarg, &o->config.entry_list);
	case OPT_MAX_SIZE:
		return parse_memory("--max-size", optarg, LIMPET_CAPTURE_MAX_SIZE_MIN_BYTES,
				    &o->config.max_bytes);
	case OPT_MEMORY:
		return parse_memory("--memory", optarg, MEMORY_MIN_BYTES,
				    &o->config.agent_memory_bytes);
	case OPT_COLLECTOR_MEMORY:
		return parse_memory("--collector-memory", optarg, MEMORY_MIN_BYTES,
				    &o->config.collector_memory_bytes);
	case OPT_LOAD:
		return limpet_settings_parse_load(optarg, &o->config);
	case OPT_ON_OVERLOAD:
		return parse_overload(optarg, &o->config);
	case OPT_ATTACH_TIMEOUT:
		return limpet_capture_parse_duration("--attach-timeout", optarg,
						     &o->config.attach_timeout_ns);
	case 'p':
		return limpet_line_parse_pid(optarg, &o->pid);
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
	if (o->config.leaks &&
	    (o->config.sampling.bytes || o->config.on_overload == LIMPET_OVERLOAD_SAMPLE))
		return limpet_ui_usage(NULL,
				       "--leaks needs all blocks, of which a sample has some");
	if (o->config.sampling.bytes && o->config.on_overload == LIMPET_OVERLOAD_SAMPLE)
		return limpet_ui_usage(
			NULL,
			"--on-overload sample: with --sample, nothing but samples is recorded");
	return LIMPET_EXIT_OK;
}

/* What only a file can do; then standard output is the trace's. */
static int take_output(const char *command, struct limpet_capture_options *o)
{
	const char *output = o->config.output;
	int status =
		limpet_stream_output_refuse(output, o->config.max_bytes ? "--max-size" : NULL,
					    "the oldest events cannot be taken back from a stream");

	if (status == LIMPET_EXIT_OK)
		status =
			limpet_stream_output_refuse(output, o->follow_fork ? "--follow-fork" : NULL,
						    "each child has a trace of its own");
	if (status == LIMPET_EXIT_OK && output && !strcmp(output, LIMPET_STREAM_STDOUT))
		status = limpet_stream_output_refuse(output, o->background ? "--background" : NULL,
						     "what runs there has no standard output");
	return status == LIMPET_EXIT_OK
		       ? limpet_stream_output_take(command, output, &o->config.output_fd)
		       : status;
}

static int parse_pid(int count, char **operands, void *context)
{
	struct limpet_capture_options *o = context;
	struct limpet_err err;
	int status;

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
	status = check_together(o);
	return status == LIMPET_EXIT_OK ? take_output("attach", o) : status;
}

static int parse_command(int count, char **operands, void *context)
{
	struct limpet_capture_options *o = context;
	int status;

	if (!count)
		return limpet_ui_usage("run", "run: missing COMMAND");
	if (o->search)
		return limpet_ui_usage("run", "--alloc-functions search is for `limpet attach`: "
					      "it watches a program that runs");
	o->command = operands;
	status = check_together(o);
	return status == LIMPET_EXIT_OK ? take_output("run", o) : status;
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
		.usage = attach ? attach_usage : run_usage,
		.end = attach ? NULL : run_end,
		/* The command's own options are not limpet's. */
		.ends_at_operand = !attach,
		.takes = attach ? LIMPET_TAKES_PROCESS : LIMPET_TAKES_COMMAND,
		.options = attach ? attach_options : run_options,
		.parse_option = parse_option,
		.parse_operands = attach ? parse_pid : parse_command,
	};

	if (!limpet_line_parse(&line, argc, argv, &o, ret_status))
		return false;
	if (!o.config.collector_memory_bytes)
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

	for (const struct limpet_option *option = attach_options; option->name; option++) {
		snprintf(text, sizeof(text), "--%s", option->name);
		if (option->id >= LIMPET_LINE_FIRST_FLAG && option->id != background &&
		    ((const bool *)o)[option->id - LIMPET_LINE_FIRST_FLAG])
			add_word(words, text);
	}
}

static void add_labels(struct limpet_capture_words *words, const struct limpet_labels *labels)
{
	char text[2 * sizeof(((struct limpet_label *)0)->name)];
	const char *at = labels->text;
	struct limpet_label label;
	unsigned read = 0;

	while (limpet_labels_next(&at, &read, &label)) {
		snprintf(text, sizeof(text), "%s=%s", label.name, label.value);
		add_option(words, "--label", text);
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
	add_number(ret, "--collector-memory", o->config.collector_memory_bytes, "");
	add_number(ret, "--attach-timeout", (o->config.attach_timeout_ns + 999999) / 1000000, "ms");
	add_option(ret, "--on-overload", overload_words[o->config.on_overload]);
	add_option(ret, "--alloc-functions", o->alloc_functions);
	add_option(ret, "--load", limpet_load_words[o->config.load]);
	add_labels(ret, &o->config.labels);
	add_flags(ret, o);
	snprintf(pid, sizeof(pid), "%d", fork->pid);
	add_word(ret, pid);
}

void limpet_capture_words_done(struct limpet_capture_words *words)
{
	for (unsigned i = 0; i < words->count; i++)
		free(words->list[i]);
}
