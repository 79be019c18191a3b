#include "cli/doctor_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/json_output.h"
#include "cli/ui.h"
#include "common/array.h"
#include "common/units.h"
#include "injector/proc/processes.h"
#include "injector/proc/target_process.h"

struct row {
	struct limpet_preflight *preflight;
};

struct rows {
	struct row *list;
	size_t count, capacity;
};

static void rows_done(struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		free(rows->list[i].preflight);
	free(rows->list);
}

static int rows_add(struct rows *rows, const struct limpet_preflight *preflight)
{
	struct row row;

	if (limpet_reserve(&rows->list, &rows->capacity, rows->count + 1, sizeof(*rows->list)) < 0)
		return -ENOMEM;
	row.preflight = malloc(sizeof(*row.preflight));
	if (!row.preflight)
		return -ENOMEM;
	*row.preflight = *preflight;
	rows->list[rows->count++] = row;
	return 0;
}

static int by_rss(const void *a, const void *b)
{
	const struct limpet_preflight *x = ((const struct row *)a)->preflight;
	const struct limpet_preflight *y = ((const struct row *)b)->preflight;

	if (x->rss_bytes != y->rss_bytes)
		return x->rss_bytes < y->rss_bytes ? 1 : -1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Kernel threads, limpet itself and processes that have just ended are left out. */
static bool is_shown(const struct limpet_preflight *preflight)
{
	return preflight->verdict != LIMPET_PREFLIGHT_GONE && !preflight->kernel_thread &&
	       preflight->pid != getpid();
}

static int collect(const struct limpet_preflight_options *options, struct rows *rows)
{
	struct limpet_preflight_options quick = *options;
	LIMPET_FREE struct limpet_preflight *preflight = malloc(sizeof(*preflight));
	LIMPET_FREE pid_t *pids = NULL;
	int count = limpet_proc_pids(&pids), result = 0;

	if (count < 0 || !preflight)
		return count < 0 ? count : -ENOMEM;
	quick.quick = true;
	quick.cache = limpet_preflight_cache_new(); /* NULL works, too, but is slower */
	for (int i = 0; i < count && result == 0; i++) {
		struct limpet_target target;

		/* a refusal is a row like any other */
		(void)!limpet_target_open(pids[i], &target, NULL); /* gone, for example */
		(void)limpet_preflight_run(&target, &quick, preflight, NULL);
		limpet_target_close(&target);
		if (is_shown(preflight))
			result = rows_add(rows, preflight);
	}
	limpet_preflight_cache_free(quick.cache);
	return result;
}

/* ------------------------------------------------------------------ text */

/* "no: needs sudo", "ok", "ok (container)". */
static void verdict_words(const struct limpet_preflight *preflight, char *ret, size_t room)
{
	bool refused = preflight->verdict != LIMPET_PREFLIGHT_OK;
	const char *brief = "";

	for (size_t i = 0; i < preflight->count && !brief[0]; i++) {
		const struct limpet_finding *finding = &preflight->list[i];

		if (refused ? finding->severity == LIMPET_FINDING_REFUSE
			    : finding->severity != LIMPET_FINDING_OK)
			brief = finding->brief;
	}
	if (refused)
		snprintf(ret, room, "no%s%s", brief[0] ? ": " : "", brief);
	else
		snprintf(ret, room, "ok%s%s%s", brief[0] ? " (" : "", brief, brief[0] ? ")" : "");
}

static void print_rows(const struct rows *rows)
{
	const char *plain = limpet_ui_style(stdout, LIMPET_UI_PLAIN);
	int width = limpet_ui_width(STDOUT_FILENO), verdict_width = width - 46;
	char user[64] = "", rss[LIMPET_UNITS_TEXT], verdict[64], name[64];
	uid_t user_uid = 0;

	if (verdict_width < 8)
		verdict_width = 8;
	printf("%s%7s  %-8s  %10s  %-15s  %s%s\n", limpet_ui_style(stdout, LIMPET_UI_BOLD), "PID",
	       "USER", "RSS", "COMMAND", "ATTACH", plain);
	for (size_t i = 0; i < rows->count; i++) {
		const struct limpet_preflight *row = rows->list[i].preflight;
		bool ok = row->verdict == LIMPET_PREFLIGHT_OK;

		/* the user database may be remote: ask once for consecutive rows of the same user
		 */
		if (!user[0] || row->uid != user_uid)
			limpet_ui_user(row->uid, user, sizeof(user));
		user_uid = row->uid;
		limpet_units_format_bytes(rss, row->rss_bytes);
		snprintf(name, sizeof(name), "%s", row->name);
		verdict_words(row, verdict, sizeof(verdict));
		printf("%7d  %-8.8s  %10s  %-15.15s  %s%s%s\n", row->pid, limpet_ui_clean(user),
		       rss, limpet_ui_clean(name),
		       limpet_ui_style(stdout, ok ? LIMPET_UI_GREEN : LIMPET_UI_RED),
		       limpet_ui_cut(verdict, verdict_width), plain);
	}
}

/* ------------------------------------------------------------------ JSON */

static json_t *files_json(const struct limpet_owner_files *files)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < files->count; i++)
		if (json_array_append_new(list, limpet_json_clean_text(files->paths[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

json_t *limpet_doctor_json(const struct limpet_preflight *preflight)
{
	static const char *const verdicts[] = {"ok", "gone", "refused", "failed"};
	static const char *const severities[] = {"ok", "note", "warning", "refuse"};
	bool known = preflight->verdict != LIMPET_PREFLIGHT_GONE;
	json_t *findings = json_array();
	char user[64];

	for (size_t i = 0; i < preflight->count; i++) {
		const struct limpet_finding *finding = &preflight->list[i];
		json_t *object = json_pack("{s:s, s:s, s:o, s:o, s:o}", "id", finding->id,
					   "severity", severities[finding->severity], "brief",
					   limpet_json_clean_text(finding->brief), "text",
					   limpet_json_clean_text(finding->text), "hint",
					   limpet_json_clean_text(finding->hint));

		if (json_array_append_new(findings, object) < 0) {
			json_decref(findings);
			return NULL;
		}
	}
	return json_pack(
		"{s:i, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "pid",
		preflight->pid, "command", limpet_json_clean_text(preflight->name), "user",
		known ? limpet_json_clean_text(limpet_ui_user(preflight->uid, user, sizeof(user)))
		      : json_null(),
		"rss_bytes", known ? json_integer((json_int_t)preflight->rss_bytes) : json_null(),
		"verdict", verdicts[preflight->verdict], "libc",
		limpet_json_clean_text(preflight->libc), "allocators",
		limpet_json_clean_text(preflight->allocators), "unfollowed",
		limpet_json_clean_text(preflight->unfollowed), "unfollowed_files",
		files_json(&preflight->unfollowed_files), "unseen_rss_share",
		preflight->unseen_rss_share >= 0 ? json_real(preflight->unseen_rss_share)
						 : json_null(),
		"unfollowed_bytes",
		preflight->others.known ? json_integer((json_int_t)preflight->others.bytes)
					: json_null(),
		"findings", findings);
}

static json_t *rows_json(const struct rows *rows)
{
	json_t *list = json_array();

	for (size_t i = 0; i < rows->count; i++)
		if (json_array_append_new(list, limpet_doctor_json(rows->list[i].preflight)) < 0) {
			json_decref(list);
			return NULL;
		}
	return json_pack("{s:s, s:i, s:o}", "format", "limpet-doctor", "version", 1, "processes",
			 list);
}

int limpet_doctor_list(const struct limpet_preflight_options *options, bool json)
{
	struct rows rows = {0};
	struct limpet_err err;
	int result = collect(options, &rows), status = LIMPET_EXIT_FAILED;

	if (result < 0) {
		limpet_err_set(&err, result, "cannot list the processes: %s", strerror(-result));
		limpet_ui_error(&err);
		goto out;
	}
	if (rows.count)
		qsort(rows.list, rows.count, sizeof(*rows.list), by_rss);
	if (json) {
		status = limpet_json_output(rows_json(&rows), LIMPET_EXIT_OK);
		goto out;
	}
	print_rows(&rows);
	fflush(stdout);
	limpet_ui_hint("limpet doctor PID says why, and what to do");
	status = limpet_ui_finish(LIMPET_EXIT_OK);
out:
	rows_done(&rows);
	return status;
}
