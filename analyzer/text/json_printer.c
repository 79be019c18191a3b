#include "analyzer/text/json_printer.h"

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

json_t *limpet_json_number_if(bool known, uint64_t value)
{
	return known ? limpet_json_number(value) : json_null();
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

json_t *limpet_json_figures(const struct limpet_model_site *figures,
			    const struct limpet_model *model)
{
	return json_pack(
		"{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:I}", "allocations",
		limpet_json_number(figures->allocations), "allocated_bytes",
		limpet_json_number(figures->allocated_bytes), "frees",
		limpet_json_number(figures->frees), "freed_bytes",
		limpet_json_number(figures->freed_bytes), "reallocations",
		limpet_json_number_if(!limpet_model_is_imported(model), figures->reallocations),
		"temporary_allocations",
		limpet_json_number_if(!model->sample_bytes, figures->temporary_allocations),
		"live_allocations", limpet_json_number(figures->live_allocations), "live_bytes",
		limpet_json_number(figures->live_bytes), "peak_allocations",
		limpet_json_number(figures->peak_allocations), "peak_bytes",
		limpet_json_number(figures->peak_bytes), "growth_bytes",
		(json_int_t)figures->growth_bytes);
}

static json_t *part_object(const struct limpet_parts *parts, const struct limpet_part *part)
{
	static const char *const kinds[] = {
		[LIMPET_PART_ALLOCATOR] = "allocator", [LIMPET_PART_RUNTIME] = "runtime",
		[LIMPET_PART_STACKS] = "stacks",       [LIMPET_PART_CODE] = "code",
		[LIMPET_PART_MAPPED] = "mapped",       [LIMPET_PART_ANONYMOUS] = "anonymous"};
	char text[LIMPET_PART_TEXT];

	limpet_part_format(parts, part, text);
	return json_pack("{s:s,s:s,s:s,s:o,s:o,s:o}", "text", text, "name", part->words, "kind",
			 kinds[part->class], "bytes", limpet_json_number(part->bytes),
			 "before_bytes",
			 limpet_json_number_if(parts->has_before, part->before_bytes), "free_bytes",
			 limpet_json_number_if(part->free_known, part->free_bytes));
}

json_t *limpet_json_lost(bool known, const struct limpet_leak_amount *amount)
{
	return known ? json_pack("{s:o,s:o}", "blocks", limpet_json_number(amount->blocks), "bytes",
				 limpet_json_number(amount->bytes))
		     : json_null();
}

json_t *limpet_json_resident(const struct limpet_parts *parts)
{
	char *text = NULL;
	json_t *list = json_array(), *sentence;

	if (limpet_parts_sentence(parts, &text) < 0) {
		json_decref(list);
		return NULL;
	}
	for (size_t i = 0; i < parts->count; i++)
		list = limpet_json_append(list, part_object(parts, &parts->list[i]));
	sentence = limpet_json_text(text);
	free(text);
	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "text", sentence, "bytes",
			 limpet_json_number_if(parts->known || parts->unknown_bytes,
					       parts->known ? parts->bytes : parts->unknown_bytes),
			 "before_bytes",
			 limpet_json_number_if(parts->has_before, parts->before_bytes), "moment",
			 !parts->known      ? json_null()
			 : parts->is_before ? json_string("before")
					    : json_string("end"),
			 "parts", list);
}

json_t *limpet_json_sizes(const struct limpet_model_size *sizes, size_t count, bool averages)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < count; i++) {
		const struct limpet_model_size *size = &sizes[i];
		json_t *item = json_pack("{s:o,s:o,s:o,s:o}", "from_bytes",
					 limpet_json_number(size->from_bytes), "to_bytes",
					 limpet_json_number(size->to_bytes), "allocations",
					 limpet_json_number(size->allocations), "allocated_bytes",
					 limpet_json_number(size->allocated_bytes));

		if (averages)
			item = limpet_json_set(item, "average_bytes",
					       json_real((double)size->allocated_bytes /
							 (double)size->allocations));
		list = limpet_json_append(list, item);
	}
	return list;
}

json_t *limpet_json_append(json_t *list, json_t *value)
{
	if (json_array_append_new(list, value) == 0)
		return list;
	json_decref(list);
	return NULL;
}

json_t *limpet_json_set(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value) == 0)
		return object;
	json_decref(object);
	return NULL;
}

static void print_value(struct limpet_json_printer *printer, json_t *value)
{
	/* Fails without memory, or on an error of the file, which the caller checks. */
	if (json_dumpf(value, printer->file, JSON_COMPACT | JSON_ENCODE_ANY) &&
	    !ferror(printer->file))
		limpet_json_check(printer, -ENOMEM);
}

void limpet_json_member(struct limpet_json_printer *printer, const char *key, json_t *value)
{
	if (limpet_json_check(printer, value ? 0 : -ENOMEM)) {
		fprintf(printer->file, ",\n\"%s\":", key);
		print_value(printer, value);
	}
	json_decref(value);
}

json_t *limpet_json_names(const struct limpet_model *model)
{
	return limpet_json_text(model->names_looked_up ? "present-files"
				: model->sealed        ? "trace"
						       : NULL);
}

void limpet_json_members_of_time(struct limpet_json_printer *printer,
				 const struct limpet_model *model)
{
	limpet_json_member(printer, "window",
			   json_pack("{s:o,s:o}", "from_seconds",
				     limpet_json_seconds(model->from_ns), "to_seconds",
				     limpet_json_seconds(model->to_ns)));
	if (model->born)
		limpet_json_member(printer, "born",
				   json_pack("{s:o,s:o}", "from_seconds",
					     limpet_json_seconds(model->born_from_ns), "to_seconds",
					     model->born_to_ns == UINT64_MAX
						     ? json_null()
						     : limpet_json_seconds(model->born_to_ns)));
}

void limpet_json_item(struct limpet_json_printer *printer, json_t *value)
{
	if (limpet_json_check(printer, value ? 0 : -ENOMEM)) {
		fputs(printer->items++ ? ",\n" : "\n", printer->file);
		print_value(printer, value);
	}
	json_decref(value);
}

void limpet_json_begin_list(struct limpet_json_printer *printer, const char *key)
{
	printer->items = 0;
	if (!printer->error)
		fprintf(printer->file, ",\n\"%s\":[", key);
}

void limpet_json_end_list(struct limpet_json_printer *printer)
{
	if (!printer->error)
		fputs("]", printer->file);
}
