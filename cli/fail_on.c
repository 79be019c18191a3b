#include "cli/fail_on.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/ui.h"
#include "common/err.h"
#include "common/units.h"

#define SECOND UINT64_C(1000000000)

static bool parse_unit(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *word;
		uint64_t ns;
	} units[] = {
		{"s", SECOND}, {"m", 60 * SECOND}, {"h", 3600 * SECOND}, {"d", 86400 * SECOND}};

	for (size_t i = 0; i < LIMPET_COUNT_OF(units); i++)
		if (!strcmp(units[i].word, text)) {
			*ret_ns = units[i].ns;
			return true;
		}
	return false;
}

static bool parse(const char *text, struct limpet_fail_condition *ret)
{
	static const char lost[] = "lost", growth[] = "growth>";
	char size[32] = "";
	const char *slash;

	*ret = (struct limpet_fail_condition){.text = text};
	if (!strncmp(text, growth, sizeof(growth) - 1)) {
		text += sizeof(growth) - 1;
		slash = strchr(text, '/');
		ret->of_growth = true;
		if (!slash || (size_t)(slash - text) >= sizeof(size))
			return false;
		memcpy(size, text, (size_t)(slash - text));
		return parse_unit(slash + 1, &ret->per_ns) &&
		       limpet_units_parse_bytes(size, &ret->bytes) == 0;
	}
	if (strncmp(text, lost, sizeof(lost) - 1) != 0)
		return false;
	text += sizeof(lost) - 1;
	return !*text || (*text == '>' && limpet_units_parse_bytes(text + 1, &ret->bytes) == 0);
}

int limpet_fail_on_parse(const char *text, struct limpet_fail_on *fail_on)
{
	if (fail_on->count == LIMPET_FAIL_ON_MAX)
		return limpet_ui_usage("report", "more than %u --fail-on", LIMPET_FAIL_ON_MAX);
	if (!parse(text, &fail_on->list[fail_on->count]))
		return limpet_ui_usage("report",
				       "--fail-on knows lost, lost>64KiB and growth>1MiB/h (/s, "
				       "/m, /h, /d): '%s'",
				       text);
	fail_on->count++;
	return LIMPET_EXIT_OK;
}

static int judge_lost(const struct limpet_fail_condition *condition,
		      const struct limpet_leak_counts *leaks)
{
	const struct limpet_leak_amount lost = limpet_leak_amounts_lost(&leaks->amounts);
	char bytes[LIMPET_UNITS_TEXT];

	if (!leaks->known) {
		limpet_ui_warn("--fail-on %s: the trace does not say what is lost (capture with "
			       "--leaks)",
			       condition->text);
		return LIMPET_EXIT_FAILED;
	}
	if (lost.bytes <= condition->bytes)
		return LIMPET_EXIT_OK;
	limpet_ui_warn("--fail-on %s: %s in %" PRIu64 " block%s %s lost", condition->text,
		       limpet_units_format_bytes(bytes, lost.bytes), lost.blocks,
		       lost.blocks == 1 ? "" : "s", lost.blocks == 1 ? "is" : "are");
	return LIMPET_EXIT_FAIL_ON;
}

static bool is_growth(const struct limpet_verdict *verdict)
{
	switch (verdict->about.kind) {
	case LIMPET_HEAP_LEAK:
	case LIMPET_HEAP_GROWTH:
	case LIMPET_HEAP_RISE:
	case LIMPET_HEAP_RUNTIME:
	case LIMPET_HEAP_MAPPING:
	case LIMPET_HEAP_STACKS:
		return verdict->changed;
	default:
		return false;
	}
}

static int judge_growth(const struct limpet_fail_condition *condition,
			const struct limpet_model *model, const struct limpet_verdict *verdict)
{
	const double ns = (double)(model->to_ns - model->from_ns);
	const double rate = is_growth(verdict) && ns > 0
				    ? (double)verdict->about.bytes / ns * (double)condition->per_ns
				    : 0;

	if (!verdict->judged) {
		limpet_ui_warn("--fail-on %s: the trace does not tell what grows: %s",
			       condition->text,
			       verdict->sentences[0] ? verdict->sentences[0] : "it is filtered");
		return LIMPET_EXIT_FAILED;
	}
	if (rate <= (double)condition->bytes)
		return LIMPET_EXIT_OK;
	limpet_ui_warn("--fail-on %s: %s", condition->text, verdict->sentences[0]);
	return LIMPET_EXIT_FAIL_ON;
}

int limpet_fail_on_judge(const struct limpet_fail_on *fail_on, const struct limpet_model *model,
			 const struct limpet_verdict *verdict)
{
	int worst = LIMPET_EXIT_OK;

	for (size_t i = 0; i < fail_on->count; i++) {
		const struct limpet_fail_condition *condition = &fail_on->list[i];
		const int status = condition->of_growth ? judge_growth(condition, model, verdict)
							: judge_lost(condition, &model->end->leaks);

		worst = status == LIMPET_EXIT_FAILED || worst == LIMPET_EXIT_OK ? status : worst;
	}
	return worst;
}
