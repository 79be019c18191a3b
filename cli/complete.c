#include "cli/complete.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/model/model.h"
#include "analyzer/trace/trace_reader.h"
#include "cli/ui.h"
#include "collector/control/control_client.h"
#include "common/array.h"
#include "common/begins.h"
#include "common/plain_text.h"
#include "common/units.h"
#include "injector/proc/processes.h"

/* More names than anybody reads. */
#define FUNCTIONS_MOST 2000u

/* What is typed, and what was before it. */
struct typing {
	const struct limpet_line *command;
	const char *word;
	const struct limpet_option *option; /* whose value the word is; NULL: none */
	const char *value;                  /* of it, so far: within `word`, after "--name=" */
	const char *operands[2];
	int operand_count, first_operand; /* its place among the words */
	int word_count;                   /* with the one that is typed */
	bool only_operands;               /* after "--" */
};

void limpet_complete_add(const char *word, const char *candidate, const char *what)
{
	if (limpet_begins(candidate, word))
		printf("%s\t%s\n", candidate, what ? what : "");
}

/* A value of the option, after what stands before it in the word: "--name=", or "A,". */
static void add_value(const struct typing *typing, const char *before_end, const char *value,
		      const char *what)
{
	char *candidate = NULL;

	/* A name in a trace may be anything; one with a line's end would begin a line of ours. */
	if (limpet_plain_text_check(value) < 0)
		return;
	if (asprintf(&candidate, "%.*s%s", (int)(before_end - typing->word), typing->word, value) <
	    0)
		return;
	limpet_complete_add(typing->word, candidate, what);
	free(candidate);
}

/* ------------------------------------------------------------------ processes */

static void add_pid(const char *word, pid_t pid, const char *what)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", pid);
	limpet_complete_add(word, number, what);
}

static void add_processes(const char *word)
{
	LIMPET_FREE pid_t *pids = NULL;
	const int count = limpet_proc_pids(&pids);

	for (int i = 0; i < count; i++) {
		char bytes[LIMPET_UNITS_TEXT], what[sizeof(bytes) + 80];
		struct limpet_proc_status status;

		if (pids[i] == getpid() || limpet_proc_status_read(pids[i], &status) < 0 ||
		    status.kernel_thread || status.state == 'Z' ||
		    (geteuid() && geteuid() != status.euid))
			continue;
		limpet_units_format_bytes(bytes, status.rss_bytes);
		snprintf(what, sizeof(what), "%s, %s", limpet_plain_text_clean(status.name), bytes);
		add_pid(word, pids[i], what);
	}
}

static void add_captures(const char *word)
{
	LIMPET_FREE struct limpet_control_capture *list = NULL;
	const int count = limpet_control_list(&list);

	for (int i = 0; i < count; i++)
		add_pid(word, list[i].pid, limpet_plain_text_clean(list[i].command));
}

static void add_threads(const struct typing *typing)
{
	char path[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.16s/task",
		 typing->operand_count ? typing->operands[0] : "");
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			add_value(typing, typing->value, entry->d_name, NULL);
	if (dir)
		closedir(dir);
}

/* ------------------------------------------------------------------ what is in a trace */

/* NULL: there is none yet, or it cannot be read. */
static struct limpet_trace_reader *open_trace(const struct typing *typing)
{
	struct limpet_trace_reader *reader;
	struct limpet_err err;

	return typing->operand_count &&
			       limpet_trace_reader_open(typing->operands[0], &reader, &err) == 0
		       ? reader
		       : NULL;
}

static void add_marks(const struct typing *typing)
{
	struct limpet_trace_reader *reader = open_trace(typing);
	const char *comma = strrchr(typing->value, ',');
	const struct limpet_trace_user_mark *marks;
	const size_t count = reader ? limpet_trace_reader_marks(reader, &marks) : 0;

	for (size_t i = 0; i < count; i++) {
		char what[LIMPET_UNITS_TEXT];

		limpet_units_format_duration(what, marks[i].time_ns);
		add_value(typing, comma ? comma + 1 : typing->value, marks[i].name, what);
	}
	limpet_trace_reader_free(reader);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, each once. */
static size_t unique(const char **names, size_t count)
{
	size_t kept = 0;

	if (count)
		qsort(names, count, sizeof(*names), compare_names);
	for (size_t i = 0; i < count; i++)
		if (!kept || strcmp(names[kept - 1], names[i]) != 0)
			names[kept++] = names[i];
	return kept;
}

static void add_functions_of(const struct typing *typing, const char *from,
			     const struct limpet_model *model)
{
	const struct limpet_model_address *addresses;
	const size_t count = limpet_model_addresses(model, &addresses);
	LIMPET_FREE const char **names = NULL;
	size_t found = 0, capacity = 0;

	for (size_t i = 0; i < count; i++) {
		const struct limpet_model_frame *frames;
		const uint32_t frame_count = limpet_model_symbols(model, addresses[i].module,
								  addresses[i].address, &frames);

		for (uint32_t k = 0; k < frame_count; k++) {
			const char *name = frames[k].function;

			/* Names with parameters would have to be quoted. */
			if (!name || !limpet_begins(name, from) || strpbrk(name, "(<"))
				continue;
			if (limpet_reserve(&names, &capacity, found + 1, sizeof(*names)) < 0)
				return;
			names[found++] = name;
		}
	}
	found = unique(names, found);
	for (size_t i = 0; i < found && i < FUNCTIONS_MOST; i++)
		add_value(typing, from, names[i], NULL);
}

/* `from`: where in the word the function's name begins. */
static void add_functions(const struct typing *typing, const char *from)
{
	struct limpet_trace_reader *reader = open_trace(typing);
	struct limpet_model *model;
	struct limpet_err err;

	if (reader && limpet_model_build(reader, NULL, &model, &err) == 0) {
		add_functions_of(typing, from, model);
		limpet_model_free(model);
	}
	limpet_trace_reader_free(reader);
}

/* ------------------------------------------------------------------ options and operands */

static void add_option(const char *word, const char *name, char letter, const char *help)
{
	char candidate[64];

	snprintf(candidate, sizeof(candidate), "--%s", name);
	limpet_complete_add(word, candidate, help);
	if (!letter)
		return;
	snprintf(candidate, sizeof(candidate), "-%c", letter);
	limpet_complete_add(word, candidate, help);
}

static void add_options(const struct typing *typing)
{
	for (const struct limpet_option *option = typing->command->options; option->name; option++)
		if (option->help)
			add_option(typing->word, option->name, option->letter, option->help);
	add_option(typing->word, "help", 'h', "this text");
}

static void add_values(const struct typing *typing)
{
	static const char callers[] = "callers=";
	const struct limpet_option *option = typing->option;

	for (size_t i = 0; option->words && option->words[i]; i++)
		add_value(typing, typing->value, option->words[i], NULL);
	if (!strcmp(option->value, "FILE") || !strcmp(option->value, "OUT"))
		puts(":files");
	else if (!strcmp(option->value, "DIR"))
		puts(":directories");
	else if (!strcmp(option->value, "TID"))
		add_threads(typing);
	else if (!strcmp(option->value, "TIME") || !strcmp(option->value, "A,B"))
		add_marks(typing);
	else if (!strcmp(option->value, "REGEX"))
		add_functions(typing, typing->value);
	else if (limpet_begins(typing->value, callers))
		add_functions(typing, typing->value + strlen(callers));
}

static void add_operands(const struct typing *typing)
{
	const unsigned takes = typing->command->takes;

	if (typing->operand_count >= (takes & LIMPET_TAKES_TWO ? 2 : 1))
		return;
	if (takes & LIMPET_TAKES_PROCESS)
		add_processes(typing->word);
	if (takes & LIMPET_TAKES_CAPTURE)
		add_captures(typing->word);
	if (takes & LIMPET_TAKES_TRACE)
		puts(":files");
	if (takes & LIMPET_TAKES_COMMAND)
		printf(":command %d\n", typing->word_count);
}

/* The option with a value of that word: "--name", "--name=...", "-x" or the last of "-qx"; NULL:
 * none. */
static const struct limpet_option *option_of(const struct limpet_line *command, const char *word)
{
	const size_t length = strcspn(word, "=");
	const char last = word[0] ? word[strlen(word) - 1] : 0;

	for (const struct limpet_option *option = command->options; option->name; option++) {
		const bool is_long = limpet_begins(word, "--");
		const bool is_named = is_long && !strncmp(option->name, word + 2, length - 2) &&
				      !option->name[length - 2];

		if (option->value &&
		    (is_named || (!is_long && option->letter && option->letter == last)))
			return option;
	}
	return NULL;
}

static void read_words(struct typing *typing, int count, char *const *words)
{
	typing->word_count = count;
	typing->word = typing->value = words[count - 1];
	for (int i = 0; i < count - 1; i++) {
		const bool is_option = !typing->only_operands && words[i][0] == '-' && words[i][1];

		if (is_option && !strcmp(words[i], "--")) {
			typing->only_operands = true;
		} else if (is_option) {
			const struct limpet_option *option = option_of(typing->command, words[i]);

			if (!option || strchr(words[i], '='))
				continue;
			if (++i == count - 1)
				typing->option = option;
		} else {
			if (!typing->operand_count)
				typing->first_operand = i;
			if (typing->operand_count < 2)
				typing->operands[typing->operand_count] = words[i];
			typing->operand_count++;
			typing->only_operands |= typing->command->ends_at_operand;
		}
	}
	if (!typing->option && !typing->only_operands && strchr(typing->word, '=')) {
		typing->option = option_of(typing->command, typing->word);
		typing->value = strchr(typing->word, '=') + 1;
	}
}

int limpet_complete(const struct limpet_line *command, int count, char *const *words)
{
	struct typing typing = {.command = command};

	if (!count)
		return LIMPET_EXIT_OK;
	read_words(&typing, count, words);
	if (typing.option)
		add_values(&typing);
	else if (command->ends_at_operand && typing.operand_count)
		printf(":command %d\n", typing.first_operand + 1);
	else if (typing.word[0] == '-' && !typing.only_operands)
		add_options(&typing);
	else
		add_operands(&typing);
	return limpet_ui_finish(LIMPET_EXIT_OK);
}
