#include "cli/explain_trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/model_losses.h"
#include "analyzer/views/analysis.h"
#include "cli/explain_print.h"
#include "cli/ui.h"
#include "cli/view_options.h"
#include "common/memory_accounts.h"
#include "common/units.h"

/* A change below both is not worth a sentence. */
#define NOTABLE_BYTES ((uint64_t)1 << 20)
#define NOTABLE_SHARE 20u /* of RSS: one such part */

enum { MOST_VERDICTS = 4 };

/* Of each account that a trace has. */
static const char *const owners[LIMPET_MEMORY_ACCOUNTS] = {
	[LIMPET_MEMORY_UNKNOWN] = "anonymous memory of no known owner",
	[LIMPET_MEMORY_HEAP] = "glibc's heap",
	[LIMPET_MEMORY_MAPPED] = "mapped by the program itself",
	[LIMPET_MEMORY_STACKS] = "stacks",
	[LIMPET_MEMORY_FILES] = "programs, libraries and files",
	[LIMPET_MEMORY_SHARED] = "shared memory",
	[LIMPET_MEMORY_CODE] = "executable anonymous memory",
	[LIMPET_MEMORY_NAMED] = "memory that the program has named",
	[LIMPET_MEMORY_OWN] = "limpet, while it captured",
};

struct explained {
	struct limpet_explanation all;
	/* Of the rest, which may hold the heap of a runtime that the trace names. */
	char unknown[sizeof(((struct limpet_account *)NULL)->owner)];
	struct limpet_account accounts[LIMPET_MEMORY_ACCOUNTS];
	uint64_t before[LIMPET_MEMORY_ACCOUNTS];
	struct limpet_explain_verdict verdicts[MOST_VERDICTS];
};

/* ------------------------------------------------------------------ accounts */

static int64_t change_of(const struct limpet_memory *first, const struct limpet_memory *last,
			 unsigned account)
{
	return (int64_t)(last->bytes[account] - first->bytes[account]);
}

/* "the heap of the JVM, and memory of no known owner": a capture does not tell them apart. */
static void name_unknown(struct explained *explained, const struct limpet_model *model)
{
	static const char format[] = "%s, and memory of no known owner";
	const char *names = limpet_model_unfollowed(model).names;
	const size_t length = strlen(names);

	if (length && length + sizeof(format) - sizeof("%s") < sizeof(explained->unknown))
		snprintf(explained->unknown, sizeof(explained->unknown), format, names);
	else
		snprintf(explained->unknown, sizeof(explained->unknown), "%s",
			 owners[LIMPET_MEMORY_UNKNOWN]);
}

static const char *owner_of(const struct explained *explained, unsigned account)
{
	return account == LIMPET_MEMORY_UNKNOWN ? explained->unknown : owners[account];
}

static void add_account(struct explained *explained, const struct limpet_memory *first,
			const struct limpet_memory *last, unsigned account)
{
	const size_t at = explained->all.account_count;
	struct limpet_account *it = &explained->accounts[at];

	if (!first->bytes[account] && !last->bytes[account])
		return;
	*it = (struct limpet_account){.kind = limpet_memory_words[account],
				      .bytes = last->bytes[account]};
	snprintf(it->owner, sizeof(it->owner), "%s", owner_of(explained, account));
	explained->before[at] = first->bytes[account];
	explained->all.account_count++;
}

/* The largest first, the unknown one at the end. */
static void list_accounts(struct explained *explained, const struct limpet_memory *first,
			  const struct limpet_memory *last)
{
	unsigned order[LIMPET_MEMORY_ACCOUNTS] = {0}, count = 0;

	for (unsigned i = LIMPET_MEMORY_HEAP; i < LIMPET_MEMORY_ACCOUNTS; i++) {
		unsigned at = count++;

		for (; at && last->bytes[order[at - 1]] < last->bytes[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
	for (unsigned i = 0; i < count; i++)
		add_account(explained, first, last, order[i]);
	add_account(explained, first, last, LIMPET_MEMORY_UNKNOWN);
	explained->all.unknown_bytes = last->bytes[LIMPET_MEMORY_UNKNOWN];
}

/* ------------------------------------------------------------------ verdicts */

__attribute__((format(printf, 4, 5))) static void say(struct explained *explained, const char *id,
						      uint64_t bytes, const char *format, ...)
{
	struct limpet_explain_verdict *it = &explained->verdicts[explained->all.verdict_count++];
	va_list args;

	*it = (struct limpet_explain_verdict){.id = id, .bytes = bytes};
	va_start(args, format);
	vsnprintf(it->text, sizeof(it->text), format, args);
	va_end(args);
}

static bool is_notable(const struct limpet_memory *last, int64_t bytes)
{
	return bytes >= (int64_t)NOTABLE_BYTES &&
	       (uint64_t)bytes >= last->bytes[LIMPET_MEMORY_RSS] / NOTABLE_SHARE;
}

static void judge_change(struct explained *explained, const struct limpet_memory *first,
			 const struct limpet_memory *last)
{
	const int64_t change = change_of(first, last, LIMPET_MEMORY_RSS);
	char text[LIMPET_UNITS_TEXT], part[LIMPET_UNITS_TEXT];
	unsigned most = LIMPET_MEMORY_UNKNOWN;

	if (!is_notable(last, change)) {
		say(explained, "steady", 0, "Resident memory changed by %s.",
		    limpet_units_format_bytes_change(text, change));
		return;
	}
	for (unsigned i = LIMPET_MEMORY_HEAP; i < LIMPET_MEMORY_ACCOUNTS; i++)
		if (change_of(first, last, i) > change_of(first, last, most))
			most = i;
	limpet_units_format_bytes(text, (uint64_t)change);
	limpet_units_format_bytes_change(part, change_of(first, last, most));
	say(explained, "grown", (uint64_t)change,
	    "Resident memory grew by %s, most of all: %s (%s).", text, owner_of(explained, most),
	    part);
}

/* Blocks from before the capture may have been freed meanwhile: what they gave back is known only
 * if the heap knows the size of what it is given, so they count as far as it does. */
static void judge_heap(struct explained *explained, const struct limpet_model *model,
		       const struct limpet_memory *first, const struct limpet_memory *last)
{
	const int64_t heap = change_of(first, last, LIMPET_MEMORY_HEAP);
	const int64_t live =
		(int64_t)model->totals.live_bytes - (int64_t)model->totals.foreign_freed_bytes;
	char grew[LIMPET_UNITS_TEXT], text[LIMPET_UNITS_TEXT], rest[LIMPET_UNITS_TEXT];

	if (!model->exact || !is_notable(last, heap) || !is_notable(last, heap - live))
		return;
	limpet_units_format_bytes(grew, (uint64_t)heap);
	limpet_units_format_bytes_change(text, live);
	limpet_units_format_bytes(rest, (uint64_t)(heap - live));
	say(explained, "heap-kept", (uint64_t)(heap - live),
	    "glibc's heap grew by %s, but what the program has in it by %s: %s are free inside, "
	    "or lie beside blocks. limpet explain PID says how much malloc_trim(3) returns.",
	    grew, text, rest);
}

static void judge_unknown(struct explained *explained, const struct limpet_model *model)
{
	const struct limpet_unfollowed unfollowed = limpet_model_unfollowed(model);
	char text[sizeof(explained->verdicts[0].text) - 2];

	if (!unfollowed.matters)
		return;
	limpet_unfollowed_sentence(&unfollowed, text, sizeof(text));
	say(explained, "unknown", unfollowed.bytes, "%s.", text);
}

/* ------------------------------------------------------------------ all */

/* The measurements, that before the capture included. NULL: no memory. */
static struct limpet_model_memory *collect(const struct limpet_model *model, size_t *ret_count)
{
	struct limpet_model_memory *list = calloc(model->memory_count + 1, sizeof(*list));
	size_t count = 0;

	if (!list)
		return NULL;
	if (model->target->memory.known)
		list[count++] = (struct limpet_model_memory){0, model->target->memory};
	for (size_t i = 0; i < model->memory_count; i++)
		list[count++] = model->memories[i];
	*ret_count = count;
	return list;
}

static int print(const char *file, const struct limpet_model *model,
		 const struct limpet_model_memory *list, size_t count, bool json)
{
	const struct limpet_memory *first = &list[0].memory, *last = &list[count - 1].memory;
	struct explained explained = {.all = {.pid = model->target->pid,
					      .rss_bytes = last->bytes[LIMPET_MEMORY_RSS],
					      .accounts = explained.accounts,
					      .verdicts = explained.verdicts}};
	const struct limpet_explained_trace trace = {.file = file,
						     .duration_ns = model->duration_ns,
						     .memories = list,
						     .memory_count = count,
						     .before = count > 1 ? explained.before : NULL};
	const struct limpet_explained what = {.explanation = &explained.all, .trace = &trace};

	snprintf(explained.all.name, sizeof(explained.all.name), "%s", model->target->comm);
	name_unknown(&explained, model);
	list_accounts(&explained, first, last);
	if (count > 1) {
		judge_change(&explained, first, last);
		judge_heap(&explained, model, first, last);
	} else {
		say(&explained, "not-measured-again", 0,
		    "Memory was not measured again: what changed is not known.");
	}
	judge_unknown(&explained, model);
	return json ? limpet_explain_print_json(&what) : limpet_explain_print_text(&what);
}

static int explain_heap(const char *file, const struct limpet_model *model, bool json)
{
	LIMPET_FREE struct limpet_model_memory *list = NULL;
	struct limpet_err err;
	size_t count;

	list = collect(model, &count);
	if (!list) {
		limpet_err_set(&err, -ENOMEM, "out of memory");
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	if (!count) {
		limpet_err_set(&err, -ENODATA, "'%s' does not say what memory was used for", file);
		limpet_err_hint(&err, "%s; `limpet explain PID` looks at any process that runs",
				model->target->pages
					? "a trace of `limpet pages` has no such account"
					: "it is measured only if limpet follows no "
					  "allocator but glibc's");
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	return print(file, model, list, count, json);
}

int limpet_explain_trace(const char *file, bool json)
{
	const struct limpet_analysis_options options = {.progress = limpet_cli_show_progress};
	struct limpet_err err = {0};
	struct limpet_analysis analysis;
	int result = limpet_analysis_open(file, &options, &analysis, &err), status;

	limpet_cli_clear_progress();
	if (result < 0)
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	status = explain_heap(file, analysis.model, json);
	limpet_analysis_close(&analysis);
	return status;
}
