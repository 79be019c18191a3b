/* What `limpet explain` prints, of a process and of a trace. */
#include "cli/explain_print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/text/json_printer.h"
#include "cli/json_output.h"
#include "cli/ui.h"
#include "common/units.h"

/* Rows of the table, and the columns before the owner. */
enum { ROWS = 20, OWNER_COLUMN = 38, CHANGE_COLUMN = 13, VERDICT_MARGIN = 4 };

/* ------------------------------------------------------------------ text */

/* 0, or -ENOMEM. */
static int print_head(const struct limpet_explained *what, int width)
{
	const struct limpet_explanation *explanation = what->explanation;
	const bool of_end = what->trace && !what->parts->is_before;
	LIMPET_FREE char *resident = NULL, *text = NULL;
	char duration[LIMPET_UNITS_TEXT];

	if (limpet_parts_sentence(what->parts, &resident) < 0 ||
	    asprintf(&text, "'%s' (%d)%s%s: %s", explanation->name, explanation->pid,
		     of_end ? " at the end of " : "",
		     of_end ? limpet_units_format_duration(duration, what->trace->duration_ns) : "",
		     resident ?: "nothing resident") < 0)
		return -ENOMEM;
	printf("%s", limpet_ui_style(stdout, LIMPET_UI_BOLD));
	limpet_ui_wrap(limpet_ui_clean(text), VERDICT_MARGIN, width);
	printf("%s", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	return 0;
}

static void print_verdicts(const struct limpet_explanation *explanation, int width)
{
	for (size_t i = 0; i < explanation->verdict_count; i++) {
		char sentence[sizeof(explanation->verdicts[i].text)];

		snprintf(sentence, sizeof(sentence), "%s", explanation->verdicts[i].text);
		printf("  - ");
		limpet_ui_wrap(limpet_ui_clean(sentence), VERDICT_MARGIN, width);
	}
}

/* `change`: NULL: there is no such column. */
static void print_row(const struct limpet_explanation *explanation, uint64_t bytes,
		      const char *change, const char *kept, const char *owner, int width)
{
	char text[LIMPET_UNITS_TEXT], change_column[LIMPET_UNITS_TEXT + 2] = "";
	const double rss = explanation->rss_bytes ? (double)explanation->rss_bytes : 1;
	const int before = OWNER_COLUMN + (change ? CHANGE_COLUMN : 0);
	char cut[128];

	if (change)
		snprintf(change_column, sizeof(change_column), "  %11s", change);
	snprintf(cut, sizeof(cut), "%s", owner);
	printf("  %11s  %5.1f %%%s  %11s   %s\n", limpet_units_format_bytes(text, bytes),
	       100 * (double)bytes / rss, change_column, kept,
	       limpet_ui_cut(cut, width > before + 16 ? width - before : 16));
}

static void print_account(const struct limpet_explanation *explanation, const uint64_t *before,
			  size_t at, int width)
{
	const struct limpet_account *account = &explanation->accounts[at];
	char owner[sizeof(account->owner) + 32], kept[LIMPET_UNITS_TEXT] = "-";
	char change[LIMPET_UNITS_TEXT];

	if (before)
		limpet_units_format_bytes_change(change, (int64_t)(account->bytes - before[at]));
	if (account->retained_known)
		limpet_units_format_bytes(kept, account->retained_bytes);
	if (account->count > 1)
		snprintf(owner, sizeof(owner), "%s (%llu)", account->owner,
			 (unsigned long long)account->count);
	else
		snprintf(owner, sizeof(owner), "%s", account->owner);
	print_row(explanation, account->bytes, before ? change : NULL, kept, owner, width);
}

/* The accounts [first, end) of one kind, at the first of them, `at`. */
static void print_others(const struct limpet_explanation *explanation, const uint64_t *before,
			 size_t first, size_t end, size_t at, int width)
{
	const struct limpet_account *list = explanation->accounts;
	char owner[128], change[LIMPET_UNITS_TEXT];
	unsigned long long count = 0;
	uint64_t bytes = 0, old_bytes = 0;

	for (size_t i = first; i < end; i++) {
		if (strcmp(list[i].kind, list[at].kind) != 0)
			continue;
		if (i < at)
			return;
		bytes += list[i].bytes;
		old_bytes += before ? before[i] : 0;
		count++;
	}
	if (count == 1)
		snprintf(owner, sizeof(owner), "%s", list[at].owner);
	else
		snprintf(owner, sizeof(owner), "others: %s (%llu)",
			 limpet_explain_words(list[at].kind), count);
	limpet_units_format_bytes_change(change, (int64_t)(bytes - old_bytes));
	print_row(explanation, bytes, before ? change : NULL, "-", owner, width);
}

/* The largest accounts, then the others by their kinds, then the unknown one, which is the last. */
static void print_table(const struct limpet_explanation *explanation, const uint64_t *before,
			int width)
{
	const bool has_unknown = explanation->unknown_bytes > 0;
	const size_t known = explanation->account_count - (has_unknown ? 1 : 0);
	char change[LIMPET_UNITS_TEXT];
	uint64_t sum = 0, old_sum = 0;

	printf("\n%s  %11s  %7s%s  %11s   %s%s\n", limpet_ui_style(stdout, LIMPET_UI_DIM),
	       "resident", "share", before ? "       change" : "", "free in it", "owner",
	       limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	for (size_t i = 0; i < explanation->account_count; i++) {
		sum += explanation->accounts[i].bytes;
		old_sum += before ? before[i] : 0;
	}
	for (size_t i = 0; i < known; i++)
		if (i < ROWS)
			print_account(explanation, before, i, width);
		else
			print_others(explanation, before, ROWS, known, i, width);
	if (has_unknown)
		print_account(explanation, before, known, width);
	limpet_units_format_bytes_change(change, (int64_t)(sum - old_sum));
	print_row(explanation, sum, before ? change : NULL, "-", "sum", width);
}

/* Only if there is a sentence about that memory. */
static void print_unknown_mappings(const struct limpet_explanation *explanation)
{
	bool is_said = false;

	for (size_t i = 0; i < explanation->verdict_count; i++)
		is_said |= !strcmp(explanation->verdicts[i].id, "unknown") ||
			   !strcmp(explanation->verdicts[i].id, "glibc-unrecognized");
	if (!is_said || !explanation->unknown_mapping_count)
		return;
	printf("\n%s  %11s   mappings with most memory of no known owner%s\n",
	       limpet_ui_style(stdout, LIMPET_UI_DIM), "resident",
	       limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	for (size_t i = 0; i < explanation->unknown_mapping_count; i++) {
		const struct limpet_explain_mapping *it = &explanation->unknown_mappings[i];
		char text[LIMPET_UNITS_TEXT];

		printf("  %11s   %" PRIx64 "-%" PRIx64 " %s\n",
		       limpet_units_format_bytes(text, it->bytes), it->start, it->end,
		       it->permissions);
	}
}

int limpet_explain_print_text(const struct limpet_explained *what)
{
	const int width = limpet_ui_width(STDOUT_FILENO);
	struct limpet_err err = {0};

	if (print_head(what, width) < 0) {
		limpet_err_set(&err, -ENOMEM, "out of memory");
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	print_verdicts(what->explanation, width);
	print_table(what->explanation, what->trace ? what->trace->before : NULL, width);
	print_unknown_mappings(what->explanation);
	return limpet_ui_finish(LIMPET_EXIT_OK);
}

/* ------------------------------------------------------------------ JSON */

static json_t *account_json(const struct limpet_explanation *explanation,
			    const struct limpet_explained_trace *trace, size_t at)
{
	const struct limpet_account *account = &explanation->accounts[at];
	json_t *object = json_object();

	object = limpet_json_set(object, "owner", limpet_json_text(account->owner));
	object = limpet_json_set(object, "kind", limpet_json_text(account->kind));
	object = limpet_json_set(object, "bytes", limpet_json_number(account->bytes));
	object = limpet_json_set(
		object, "retained_bytes",
		limpet_json_number_if(account->retained_known, account->retained_bytes));
	object = limpet_json_set(object, "count", limpet_json_known(account->count));
	if (trace)
		object = limpet_json_set(
			object, "before_bytes",
			limpet_json_number_if(trace->before,
					      trace->before ? trace->before[at] : 0));
	return limpet_json_set(object, "remedy", limpet_json_text(account->remedy));
}

static json_t *verdict_json(const struct limpet_explain_verdict *verdict)
{
	json_t *object = json_object();

	object = limpet_json_set(object, "id", limpet_json_text(verdict->id));
	object = limpet_json_set(object, "text", limpet_json_text(verdict->text));
	object = limpet_json_set(object, "bytes", limpet_json_known(verdict->bytes));
	object = limpet_json_set(object, "remedy", limpet_json_text(verdict->remedy));
	object = limpet_json_set(object, "next", limpet_json_text(verdict->next));
	return limpet_json_set(
		object, "returned_bytes",
		limpet_json_number_if(verdict->returned_known, verdict->returned_bytes));
}

static json_t *address_json(uint64_t address)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	return json_string(text);
}

static json_t *mappings_json(const struct limpet_explanation *explanation)
{
	json_t *list = json_array();

	for (size_t i = 0; i < explanation->unknown_mapping_count; i++) {
		const struct limpet_explain_mapping *it = &explanation->unknown_mappings[i];
		json_t *object = json_object();

		object = limpet_json_set(object, "start", address_json(it->start));
		object = limpet_json_set(object, "end", address_json(it->end));
		object = limpet_json_set(object, "permissions", limpet_json_text(it->permissions));
		object = limpet_json_set(object, "resident_bytes", limpet_json_number(it->bytes));
		list = limpet_json_append(list, object);
	}
	return list;
}

static json_t *arenas_json(const struct limpet_explanation *explanation)
{
	json_t *list = json_array();

	for (size_t i = 0; i < explanation->glibc.arenas; i++) {
		const struct limpet_explain_arena *arena = &explanation->arenas[i];
		json_t *object = json_object();

		object = limpet_json_set(object, "address",
					 arena->address ? address_json(arena->address)
							: json_null());
		object = limpet_json_set(object, "main", json_boolean(arena->is_main));
		object = limpet_json_set(
			object, "system_bytes",
			limpet_json_number_if(arena->system_known, arena->system_bytes));
		object = limpet_json_set(object, "resident_bytes",
					 limpet_json_number(arena->resident_bytes));
		object = limpet_json_set(object, "free_resident_bytes",
					 limpet_json_number_if(arena->known, arena->free_bytes));
		object = limpet_json_set(object, "top_resident_bytes",
					 limpet_json_number_if(arena->known, arena->top_bytes));
		object =
			limpet_json_set(object, "returned_by_trim_bytes",
					limpet_json_number_if(arena->known, arena->returned_bytes));
		list = limpet_json_append(list, object);
	}
	return list;
}

static json_t *glibc_json(const struct limpet_explanation *explanation)
{
	const struct limpet_explain_glibc *glibc = &explanation->glibc;
	const struct {
		const char *key;
		uint64_t value;
		bool known;
	} numbers[] = {
		{"arenas", glibc->arenas, true},
		{"unread_arenas", glibc->unknown_arenas, true},
		{"empty_arenas", glibc->empty_arenas, glibc->whole},
		{"system_bytes", glibc->system_bytes, glibc->listed},
		{"free_bytes", glibc->free_bytes, glibc->whole},
		{"top_bytes", glibc->top_bytes, glibc->whole},
		{"fastbin_bytes", glibc->fast_bytes, glibc->fast_whole},
		{"thread_cache_bytes", glibc->cache_bytes, glibc->caches_known},
		{"resident_bytes", glibc->resident_bytes, glibc->whole},
		{"free_resident_bytes", glibc->free_resident_bytes, glibc->whole},
		{"returned_by_trim_bytes", glibc->returned_bytes, glibc->whole},
		{"shared_bytes", glibc->shared_bytes, true},
		{"chunks", glibc->chunks, glibc->whole},
		{"free_chunks", glibc->free_chunks, glibc->whole},
	};
	json_t *object = json_object();

	for (size_t i = 0; i < LIMPET_COUNT_OF(numbers); i++)
		object = limpet_json_set(object, numbers[i].key,
					 limpet_json_number_if(numbers[i].known, numbers[i].value));
	object = limpet_json_set(object, "locked", json_boolean(glibc->locked));
	object = limpet_json_set(object, "mmapped_bytes",
				 limpet_json_number_if(glibc->mmapped_known, glibc->mmapped_bytes));
	return limpet_json_set(object, "list", arenas_json(explanation));
}

static json_t *trace_json(const struct limpet_explained_trace *trace)
{
	json_t *object = json_object();

	object = limpet_json_set(object, "file", limpet_json_text(trace->file));
	return limpet_json_set(object, "duration_seconds", limpet_json_seconds(trace->duration_ns));
}

static json_t *explanation_json(const struct limpet_explained *what)
{
	const struct limpet_explanation *explanation = what->explanation;
	const struct limpet_explained_trace *trace = what->trace;
	json_t *object = json_object(), *accounts = json_array(), *verdicts = json_array();

	for (size_t i = 0; i < explanation->account_count; i++)
		accounts = limpet_json_append(accounts, account_json(explanation, trace, i));
	for (size_t i = 0; i < explanation->verdict_count; i++)
		verdicts = limpet_json_append(verdicts, verdict_json(&explanation->verdicts[i]));
	object = limpet_json_set(object, "format", json_string("limpet-explain"));
	object = limpet_json_set(object, "version", json_integer(1));
	object = limpet_json_set(object, "pid", json_integer(explanation->pid));
	object = limpet_json_set(object, "command", limpet_json_text(explanation->name));
	object = limpet_json_set(object, "rss_bytes", limpet_json_number(explanation->rss_bytes));
	object = limpet_json_set(object, "swap_bytes",
				 limpet_json_number_if(!trace, explanation->swap_bytes));
	object = limpet_json_set(object, "lazy_free_bytes",
				 limpet_json_number_if(!trace, explanation->lazy_free_bytes));
	object = limpet_json_set(object, "resident", limpet_json_resident(what->parts));
	object = limpet_json_set(object, "accounts", accounts);
	object = limpet_json_set(object, "unknown_bytes",
				 limpet_json_number(explanation->unknown_bytes));
	object = limpet_json_set(object, "unknown_mappings",
				 trace ? json_null() : mappings_json(explanation));
	object = limpet_json_set(object, "glibc",
				 explanation->has_glibc ? glibc_json(explanation) : json_null());
	object = limpet_json_set(object, "trace", trace ? trace_json(trace) : json_null());
	object = limpet_json_set(object, "census", what->census);
	object = limpet_json_set(object, "class_censuses", what->classes);
	object = limpet_json_set(object, "objects", what->objects);
	return limpet_json_set(object, "verdicts", verdicts);
}

int limpet_explain_print_json(const struct limpet_explained *what)
{
	return limpet_json_output(explanation_json(what), LIMPET_EXIT_OK);
}
