/* `limpet explain`: to what the resident memory of a process belongs, and what would give it back.
 */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "analyzer/render/json_printer.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/ui.h"
#include "common/units.h"
#include "explain/explain.h"

static const char help_text[] =
	"Usage: limpet explain PID [--json]\n"
	"Says to what the resident memory of a process belongs, what of it is free inside\n"
	"the allocators, and what would give it back. Reads from outside: the process is\n"
	"not stopped and nothing in it is changed.\n"
	"\n"
	"  -p, --pid PID   another way to name the process\n"
	"      --json      for programs; unknown is null\n"
	"  -h, --help      this text\n"
	"\n"
	"Exit status: 0 done, 1 no such process or no permission, 2 usage.\n"
	"More: man limpet-explain\n";

/* Rows of the table, and the columns before the owner. */
enum { ROWS = 20, OWNER_COLUMN = 38, VERDICT_MARGIN = 4 };

/* ------------------------------------------------------------------ text */

static void print_verdicts(const struct limpet_explanation *explanation, int width)
{
	char text[LIMPET_UNITS_TEXT], name[sizeof(explanation->name)];

	snprintf(name, sizeof(name), "%s", explanation->name);
	printf("%s'%s' (%d): %s resident%s\n", limpet_ui_style(stdout, LIMPET_UI_BOLD),
	       limpet_ui_clean(name), explanation->pid,
	       limpet_units_format_bytes(text, explanation->rss_bytes),
	       limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	for (size_t i = 0; i < explanation->verdict_count; i++) {
		char sentence[sizeof(explanation->verdicts[i].text)];

		snprintf(sentence, sizeof(sentence), "%s", explanation->verdicts[i].text);
		printf("  - ");
		limpet_ui_wrap(limpet_ui_clean(sentence), VERDICT_MARGIN, width);
	}
}

static void print_row(const struct limpet_explanation *explanation, uint64_t bytes,
		      const uint64_t *retained, const char *owner, int width)
{
	char text[LIMPET_UNITS_TEXT], free_text[LIMPET_UNITS_TEXT] = "-";
	const double rss = explanation->rss_bytes ? (double)explanation->rss_bytes : 1;
	const int room = width > OWNER_COLUMN + 16 ? width - OWNER_COLUMN : 16;
	char cut[128];

	if (retained)
		limpet_units_format_bytes(free_text, *retained);
	snprintf(cut, sizeof(cut), "%.*s", room, owner);
	printf("  %11s  %5.1f %%  %11s   %s\n", limpet_units_format_bytes(text, bytes),
	       100 * (double)bytes / rss, free_text, limpet_ui_clean(cut));
}

static void print_account(const struct limpet_explanation *explanation,
			  const struct limpet_account *account, int width)
{
	char owner[sizeof(account->owner) + 32];

	if (account->count > 1)
		snprintf(owner, sizeof(owner), "%s (%llu)", account->owner,
			 (unsigned long long)account->count);
	else
		snprintf(owner, sizeof(owner), "%s", account->owner);
	print_row(explanation, account->bytes,
		  account->retained_known ? &account->retained_bytes : NULL, owner, width);
}

/* The accounts [first, end) of one kind, at the first of them, `at`. */
static void print_others(const struct limpet_explanation *explanation, size_t first, size_t end,
			 size_t at, int width)
{
	const struct limpet_account *list = explanation->accounts;
	unsigned long long count = 0;
	uint64_t bytes = 0;
	char owner[128];

	for (size_t i = first; i < end; i++) {
		if (strcmp(list[i].kind, list[at].kind) != 0)
			continue;
		if (i < at)
			return;
		bytes += list[i].bytes;
		count++;
	}
	if (count == 1)
		snprintf(owner, sizeof(owner), "%s", list[at].owner);
	else
		snprintf(owner, sizeof(owner), "others: %s (%llu)", list[at].kind, count);
	print_row(explanation, bytes, NULL, owner, width);
}

/* The largest accounts, then the others by their kinds, then the unknown one, which is the last. */
static void print_table(const struct limpet_explanation *explanation, int width)
{
	const struct limpet_account *list = explanation->accounts;
	const bool has_unknown = explanation->unknown_bytes > 0;
	const size_t known = explanation->account_count - (has_unknown ? 1 : 0);
	uint64_t sum = 0;

	printf("\n%s  %11s  %7s  %11s   %s%s\n", limpet_ui_style(stdout, LIMPET_UI_DIM), "resident",
	       "share", "free in it", "owner", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	for (size_t i = 0; i < explanation->account_count; i++)
		sum += list[i].bytes;
	for (size_t i = 0; i < known; i++)
		if (i < ROWS)
			print_account(explanation, &list[i], width);
		else
			print_others(explanation, ROWS, known, i, width);
	if (has_unknown)
		print_account(explanation, &list[known], width);
	print_row(explanation, sum, NULL, "sum", width);
}

/* ------------------------------------------------------------------ JSON */

static json_t *known_number(bool known, uint64_t value)
{
	return known ? limpet_json_number(value) : json_null();
}

static json_t *account_json(const struct limpet_account *account)
{
	json_t *object = json_object();

	object = limpet_json_set(object, "owner", limpet_json_text(account->owner));
	object = limpet_json_set(object, "kind", limpet_json_text(account->kind));
	object = limpet_json_set(object, "bytes", limpet_json_number(account->bytes));
	object = limpet_json_set(object, "retained_bytes",
				 known_number(account->retained_known, account->retained_bytes));
	object = limpet_json_set(object, "count", limpet_json_known(account->count));
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
	return limpet_json_set(object, "returned_bytes",
			       known_number(verdict->returned_known, verdict->returned_bytes));
}

static json_t *arenas_json(const struct limpet_explanation *explanation)
{
	json_t *list = json_array();

	for (size_t i = 0; i < explanation->glibc.arenas; i++) {
		const struct limpet_explain_arena *arena = &explanation->arenas[i];
		char address[32];
		json_t *object = json_object();

		snprintf(address, sizeof(address), "0x%llx", (unsigned long long)arena->address);
		object = limpet_json_set(object, "address",
					 arena->address ? json_string(address) : json_null());
		object = limpet_json_set(object, "main", json_boolean(arena->is_main));
		object = limpet_json_set(object, "system_bytes",
					 known_number(arena->system_known, arena->system_bytes));
		object = limpet_json_set(object, "resident_bytes",
					 limpet_json_number(arena->resident_bytes));
		object = limpet_json_set(object, "free_resident_bytes",
					 known_number(arena->known, arena->free_bytes));
		object = limpet_json_set(object, "top_resident_bytes",
					 known_number(arena->known, arena->top_bytes));
		object = limpet_json_set(object, "returned_by_trim_bytes",
					 known_number(arena->known, arena->returned_bytes));
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
					 known_number(numbers[i].known, numbers[i].value));
	object = limpet_json_set(object, "locked", json_boolean(glibc->locked));
	object = limpet_json_set(object, "mmapped_bytes",
				 known_number(glibc->mmapped_known, glibc->mmapped_bytes));
	return limpet_json_set(object, "list", arenas_json(explanation));
}

static json_t *explanation_json(const struct limpet_explanation *explanation)
{
	json_t *object = json_object(), *accounts = json_array(), *verdicts = json_array();

	for (size_t i = 0; i < explanation->account_count; i++)
		accounts = limpet_json_append(accounts, account_json(&explanation->accounts[i]));
	for (size_t i = 0; i < explanation->verdict_count; i++)
		verdicts = limpet_json_append(verdicts, verdict_json(&explanation->verdicts[i]));
	object = limpet_json_set(object, "format", json_string("limpet-explain"));
	object = limpet_json_set(object, "version", json_integer(1));
	object = limpet_json_set(object, "pid", json_integer(explanation->pid));
	object = limpet_json_set(object, "command", limpet_json_text(explanation->name));
	object = limpet_json_set(object, "rss_bytes", limpet_json_number(explanation->rss_bytes));
	object = limpet_json_set(object, "swap_bytes", limpet_json_number(explanation->swap_bytes));
	object = limpet_json_set(object, "lazy_free_bytes",
				 limpet_json_number(explanation->lazy_free_bytes));
	object = limpet_json_set(object, "accounts", accounts);
	object = limpet_json_set(object, "unknown_bytes",
				 limpet_json_number(explanation->unknown_bytes));
	object = limpet_json_set(object, "glibc",
				 explanation->has_glibc ? glibc_json(explanation) : json_null());
	return limpet_json_set(object, "verdicts", verdicts);
}

/* ------------------------------------------------------------------ the command line */

struct explain_options {
	pid_t pid;
	bool json;
};

static int show(const struct explain_options *options)
{
	struct limpet_explanation explanation;
	struct limpet_err err = {0};
	int width = limpet_ui_width(STDOUT_FILENO), status;

	if (limpet_explain(options->pid, &explanation, &err) < 0)
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	if (options->json) {
		status = limpet_json_output(explanation_json(&explanation), LIMPET_EXIT_OK);
	} else {
		print_verdicts(&explanation, width);
		print_table(&explanation, width);
		status = limpet_ui_finish(LIMPET_EXIT_OK);
	}
	limpet_explanation_done(&explanation);
	return status;
}

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	LIMPET_UI_FLAG("json", struct explain_options, json),
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int take_option(int option, void *context)
{
	(void)option; /* the only one is -p */
	return limpet_ui_parse_pid(optarg, &((struct explain_options *)context)->pid);
}

static int take_operands(int count, char **operands, void *context)
{
	struct explain_options *options = context;
	int status = limpet_ui_take_pid("explain", count, operands, &options->pid);

	if (status == LIMPET_EXIT_OK && !options->pid)
		return limpet_ui_usage("explain", "which process?");
	return status;
}

static const struct limpet_ui_command command = {
	"explain", help_text, ":hp:", long_options, take_option, take_operands};

int limpet_cmd_explain(int argc, char **argv)
{
	struct explain_options options = {0};
	int status;

	if (!limpet_ui_parse(&command, argc, argv, &options, &status))
		return status;
	return show(&options);
}
