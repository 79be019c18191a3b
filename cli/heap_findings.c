#include "cli/heap_findings.h"

#include <string.h>

#define HISTORY_STEPS 240
#define HISTORY_STEPS_MAX 100000

/* A window is divided into as many steps as the whole capture would be. */
static size_t steps_of(const struct limpet_model *model)
{
	const uint64_t window_ns =
		model->to_ns > model->from_ns ? model->to_ns - model->from_ns : 1;
	const uint64_t times = model->duration_ns / window_ns + 1;

	return times < HISTORY_STEPS_MAX / HISTORY_STEPS ? (size_t)times * HISTORY_STEPS
							 : HISTORY_STEPS_MAX;
}

static int build_history(const struct limpet_analysis *analysis,
			 struct limpet_history **ret_history, struct limpet_err *err)
{
	struct limpet_model *whole = NULL;
	int result = 0;

	if (analysis->model->windowed)
		result = limpet_model_build(analysis->reader, NULL, &whole, err);
	if (result >= 0)
		result = limpet_history_build(analysis->reader, whole ? whole : analysis->model,
					      whole ? steps_of(analysis->model) : HISTORY_STEPS,
					      NULL, ret_history, err);
	limpet_model_free(whole);
	return result;
}

int limpet_cli_judge(const struct limpet_analysis *analysis, const struct limpet_history *history,
		     bool blocks, const char *file, struct limpet_verdict *ret_verdict,
		     struct limpet_err *err)
{
	int code = 0;

	if (!analysis->filtered)
		code = limpet_verdict_new(&analysis->view, history,
					  blocks ? analysis->reader : NULL, file, ret_verdict);
	return code < 0 ? limpet_err_set(err, code, "cannot judge the trace: %s", strerror(-code))
			: 0;
}

int limpet_cli_judge_alone(const struct limpet_analysis *analysis, bool blocks, const char *file,
			   struct limpet_verdict *ret_verdict, struct limpet_err *err)
{
	struct limpet_history *history;
	int result;

	if (analysis->filtered || analysis->model->to_ns <= analysis->model->from_ns)
		return 0;
	result = build_history(analysis, &history, err);
	if (result < 0)
		return result;
	result = limpet_cli_judge(analysis, history, blocks, file, ret_verdict, err);
	limpet_history_free(history);
	return result;
}
