#include "cli/explain_process.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cli/census_print.h"
#include "cli/explain_print.h"
#include "cli/objects_print.h"
#include "cli/ui.h"
#include "common/clock.h"
#include "explain/census.h"
#include "explain/class_census.h"
#include "explain/explain.h"
#include "explain/runtimes/v8_census.h"
#include "injector/proc/target_process.h"

/* What is counted besides the account. */
struct counts {
	struct limpet_census census;
	struct limpet_class_censuses classes;
	struct limpet_v8_census objects, objects_before;
	struct limpet_objects both; /* the two */
};

static void counts_done(struct counts *counts)
{
	limpet_census_done(&counts->census);
	limpet_class_censuses_done(&counts->classes);
	limpet_v8_census_done(&counts->objects);
	limpet_v8_census_done(&counts->objects_before);
}

static int count_blocks(const struct limpet_target *target,
			const struct limpet_explanation *explanation, struct counts *counts,
			struct limpet_err *err)
{
	int error = limpet_census_read(target, &counts->census, err);

	if (!error)
		error = limpet_class_censuses_read(target, &explanation->class_heaps,
						   explanation->swap_bytes != 0, &counts->classes,
						   err);
	return error;
}

static void wait_for(uint64_t ns)
{
	struct timespec left = limpet_timespec(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
}

static int count_once_or_twice(const struct limpet_explain_process *options,
			       const struct limpet_target *target, struct counts *counts,
			       struct limpet_err *err)
{
	if (options->interval_ns) {
		int error = limpet_v8_census_read(target, &counts->objects_before, err);

		/* There is nothing to wait for. */
		if (error || !counts->objects_before.is_known)
			return error ? error : limpet_v8_census_read(target, &counts->objects, err);
		wait_for(options->interval_ns);
	}
	return limpet_v8_census_read(target, &counts->objects, err);
}

static int count_objects(const struct limpet_explain_process *options,
			 const struct limpet_target *target, struct counts *counts,
			 struct limpet_err *err)
{
	int error = count_once_or_twice(options, target, counts, err);

	counts->both = (struct limpet_objects){.now = &counts->objects,
					       .before = counts->objects_before.is_known &&
									 counts->objects.is_known
								 ? &counts->objects_before
								 : NULL,
					       .interval_ns = options->interval_ns};
	return error;
}

/* The account first, which is there at once. */
static int show_text(const struct limpet_explain_process *options,
		     const struct limpet_target *target, const struct limpet_explained *what,
		     struct counts *counts)
{
	struct limpet_err err = {0};
	int error = 0, status = limpet_explain_print_text(what);

	if (status != LIMPET_EXIT_OK)
		return status;
	if (options->objects) {
		limpet_ui_busy("counting the blocks in use...");
		error = count_blocks(target, what->explanation, counts, &err);
		limpet_ui_busy(NULL);
		if (!error)
			limpet_census_print_text(&counts->census, &counts->classes);
	}
	if (options->objects && !error) {
		limpet_ui_busy(options->interval_ns ? "counting objects, twice..."
						    : "counting objects...");
		error = count_objects(options, target, counts, &err);
		limpet_ui_busy(NULL);
		if (!error)
			limpet_objects_print_text(&counts->both);
	}
	return error < 0 ? limpet_ui_fail(&err, LIMPET_EXIT_FAILED)
			 : limpet_ui_finish(LIMPET_EXIT_OK);
}

static int show_json(const struct limpet_explain_process *options,
		     const struct limpet_target *target, struct limpet_explained *what,
		     struct counts *counts)
{
	struct limpet_err err = {0};

	if (options->objects) {
		if (count_blocks(target, what->explanation, counts, &err) < 0 ||
		    count_objects(options, target, counts, &err) < 0)
			return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
		what->census = limpet_census_json(&counts->census);
		what->classes = limpet_class_censuses_json(&counts->classes);
		what->objects = limpet_objects_json(&counts->both);
	}
	return limpet_explain_print_json(what);
}

int limpet_explain_process(const struct limpet_explain_process *options)
{
	struct limpet_explanation explanation;
	struct counts counts = {.classes = {.count = 0}};
	struct limpet_resident_account account = {0};
	struct limpet_parts parts;
	struct limpet_explained what = {.explanation = &explanation,
					.parts = &parts,
					.census = json_null(),
					.classes = json_null(),
					.objects = json_null()};
	struct limpet_target target;
	struct limpet_err err = {0};
	int status;

	(void)!limpet_target_open(options->pid, &target, NULL); /* limpet_explain() says why not */
	if (limpet_explain(&target, &explanation, &err) < 0) {
		limpet_target_close(&target);
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	if (limpet_explanation_account(&explanation, &account) < 0) {
		limpet_err_set(&err, -ENOMEM, "out of memory");
		status = limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	} else {
		limpet_parts_between(NULL, &account, &parts);
		status = options->json ? show_json(options, &target, &what, &counts)
				       : show_text(options, &target, &what, &counts);
	}
	free(account.rows);
	limpet_target_close(&target);
	counts_done(&counts);
	limpet_explanation_done(&explanation);
	return status;
}
