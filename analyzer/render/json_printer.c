#include "analyzer/render/json_printer.h"

#include <errno.h>
#include <stdlib.h>

#include "common/plain_text.h"

json_t *limpet_json_number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *limpet_json_known(uint64_t value)
{
	return value ? limpet_json_number(value) : json_null();
}

json_t *limpet_json_seconds(uint64_t ns)
{
	return json_real((double)ns / 1e9);
}

json_t *limpet_json_text(const char *string)
{
	char *repaired;
	json_t *value;

	if (!string || !string[0])
		return json_null();
	repaired = limpet_plain_text_repair(string);
	value = repaired ? json_string(repaired) : NULL;
	free(repaired);
	return value;
}

json_t *limpet_json_figures(const struct limpet_model_site *figures, bool sampled)
{
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:I}", "allocations",
			 limpet_json_number(figures->allocations), "allocated_bytes",
			 limpet_json_number(figures->allocated_bytes), "frees",
			 limpet_json_number(figures->frees), "freed_bytes",
			 limpet_json_number(figures->freed_bytes), "temporary_allocations",
			 sampled ? json_null() : limpet_json_number(figures->temporary_allocations),
			 "live_allocations", limpet_json_number(figures->live_allocations),
			 "live_bytes", limpet_json_number(figures->live_bytes), "peak_allocations",
			 limpet_json_number(figures->peak_allocations), "peak_bytes",
			 limpet_json_number(figures->peak_bytes), "growth_bytes",
			 (json_int_t)figures->growth_bytes);
}

int limpet_json_print(FILE *file, const char *before, json_t *value)
{
	int result = 0;

	if (!value)
		return -ENOMEM;
	fputs(before, file);
	/* It fails when memory is out, or with the file, whose error the caller sees. */
	if (json_dumpf(value, file, JSON_COMPACT | JSON_ENCODE_ANY) && !ferror(file))
		result = -ENOMEM;
	json_decref(value);
	return result;
}
