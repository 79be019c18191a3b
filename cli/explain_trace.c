#include "cli/explain_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/analysis.h"
#include "cli/explain_print.h"
#include "cli/heap_findings.h"
#include "cli/ui.h"
#include "cli/view_options.h"
#include "common/units.h"

/* The account of a trace as an explanation, with what each row had before the capture. */
struct rows {
	struct limpet_account *list;
	uint64_t *before;
	size_t count;
};

static void add(struct rows *rows, const struct limpet_resident_row *row,
		const struct limpet_resident_account *before)
{
	struct limpet_account *it = &rows->list[rows->count];

	*it = (struct limpet_account){.kind = row->kind,
				      .bytes = row->bytes,
				      .count = row->count,
				      .retained_known = row->free_known,
				      .retained_bytes = row->free_bytes};
	snprintf(it->owner, sizeof(it->owner), "%s", row->owner);
	for (size_t i = 0; i < before->count; i++)
		if (!strcmp(before->rows[i].kind, row->kind) &&
		    !strcmp(before->rows[i].owner, row->owner))
			rows->before[rows->count] += before->rows[i].bytes;
	rows->count++;
}

static bool is_in(const struct limpet_resident_account *account,
		  const struct limpet_resident_row *row)
{
	for (size_t i = 0; i < account->count; i++)
		if (!strcmp(account->rows[i].kind, row->kind) &&
		    !strcmp(account->rows[i].owner, row->owner))
			return true;
	return false;
}

/* The largest first, then those that are gone, and the unknown one at the end. */
static int list_rows(const struct limpet_resident_account *before,
		     const struct limpet_resident_account *after, struct rows *rows,
		     uint64_t *ret_unknown_bytes)
{
	const size_t room = before->count + after->count + 1;
	const bool has_unknown =
		after->count && !strcmp(after->rows[after->count - 1].kind, "unknown");
	const size_t known = after->count - has_unknown;

	rows->list = calloc(room, sizeof(*rows->list));
	rows->before = calloc(room, sizeof(*rows->before));
	if (!rows->list || !rows->before)
		return -ENOMEM;
	for (size_t i = 0; i < known; i++)
		add(rows, &after->rows[i], before);
	for (size_t i = 0; i < before->count; i++) {
		struct limpet_resident_row gone = before->rows[i];

		if (is_in(after, &before->rows[i]))
			continue;
		gone.bytes = gone.count = gone.free_bytes = 0;
		add(rows, &gone, before);
		rows->list[rows->count - 1].kind = before->rows[i].kind;
	}
	if (has_unknown) {
		add(rows, &after->rows[known], before);
		*ret_unknown_bytes = after->rows[known].bytes;
	}
	return 0;
}

/* Those of the verdict that are not about the account, which stands above them. */
static size_t copy_sentences(const struct limpet_verdict *verdict, const char *account,
			     struct limpet_explain_verdict *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < LIMPET_VERDICT_SENTENCES && verdict->sentences[i]; i++) {
		struct limpet_explain_verdict *it = &ret[count];

		if (account && !strcmp(verdict->sentences[i], account))
			continue;
		*it = (struct limpet_explain_verdict){
			.id = i ? "next" : limpet_heap_finding_words[verdict->about.kind],
			.bytes = i ? 0 : verdict->about.bytes};
		snprintf(it->text, sizeof(it->text), "%s", verdict->sentences[i]);
		count++;
	}
	return count;
}

static int print(const char *file, const struct limpet_model *model,
		 const struct limpet_verdict *verdict, const struct limpet_parts *parts, bool json,
		 struct limpet_err *err)
{
	static const struct limpet_resident_account none;
	const struct limpet_resident_account *before = &model->target->account;
	const struct limpet_resident_account *after =
		parts->is_before ? before : &model->end->account;
	struct limpet_explain_verdict verdicts[LIMPET_VERDICT_SENTENCES];
	struct limpet_explanation explanation = {.pid = (pid_t)model->target->pid,
						 .rss_bytes = after->rss_bytes,
						 .verdicts = verdicts};
	struct limpet_explained_trace trace = {.file = file, .duration_ns = model->duration_ns};
	const struct limpet_explained what = {.explanation = &explanation,
					      .parts = parts,
					      .trace = &trace,
					      .census = json_null(),
					      .classes = json_null(),
					      .objects = json_null()};
	LIMPET_FREE char *account = NULL;
	struct rows rows = {0};
	int result = list_rows(parts->has_before ? before : &none, after, &rows,
			       &explanation.unknown_bytes);

	if (result == 0)
		result = limpet_parts_sentence(parts, &account);
	if (result == 0) {
		snprintf(explanation.name, sizeof(explanation.name), "%s", model->target->comm);
		explanation.accounts = rows.list;
		explanation.account_count = rows.count;
		explanation.verdict_count = copy_sentences(verdict, account, verdicts);
		trace.before = parts->has_before ? rows.before : NULL;
		result = json ? limpet_explain_print_json(&what) : limpet_explain_print_text(&what);
	} else {
		limpet_err_set(err, result, "out of memory");
	}
	free(rows.list);
	free(rows.before);
	return result;
}

static int fail_unknown(const char *file, const struct limpet_model *model,
			const struct limpet_parts *parts, struct limpet_err *err)
{
	limpet_err_set(err, -ENODATA, "'%s' does not say what memory was used for%s", file,
		       parts->unknown_bytes > LIMPET_RESIDENT_BYTES_MAX
			       ? ": more than 4 GiB were resident"
			       : "");
	if (limpet_model_is_imported(model)) {
		limpet_err_hint(err,
				"%s records the sum of resident memory alone: `limpet report "
				"%s` shows it beside the heap",
				model->target->recorder, file);
		return -ENODATA;
	}
	limpet_err_hint(err, "`limpet explain PID` looks at any process that runs%s",
			model->target->pages ? "; a trace of `limpet pages` has no such account"
					     : "");
	return -ENODATA;
}

/* An exit status, or -errno. */
static int explain_heap(const char *file, const struct limpet_analysis *analysis, bool json,
			struct limpet_err *err)
{
	struct limpet_verdict verdict = {0};
	struct limpet_parts parts;
	int result;

	limpet_parts_last(analysis->model, &parts);
	if (!parts.known)
		return fail_unknown(file, analysis->model, &parts, err);
	result = limpet_cli_judge_alone(analysis, false, file, &verdict, err);
	if (result >= 0)
		result = print(file, analysis->model, &verdict, &parts, json, err);
	limpet_verdict_done(&verdict);
	return result;
}

int limpet_explain_trace(const char *file, bool json)
{
	const struct limpet_analysis_options options = {.progress = limpet_cli_show_progress};
	struct limpet_err err = {0};
	struct limpet_analysis analysis;
	int result = limpet_analysis_open(file, &options, &analysis, &err);

	limpet_cli_clear_progress();
	if (result >= 0) {
		result = explain_heap(file, &analysis, json, &err);
		limpet_analysis_close(&analysis);
	}
	return result < 0 ? limpet_ui_fail(&err, LIMPET_EXIT_FAILED) : result;
}
