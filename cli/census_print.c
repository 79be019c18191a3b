#include "cli/census_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/symbols/demangle.h"
#include "analyzer/text/json_printer.h"
#include "cli/ui.h"
#include "common/array.h"
#include "common/err.h"
#include "common/units.h"

/* Types that are listed by name, and the columns before the name. */
enum { ROWS = 20, TYPE_COLUMN = 27 };

/* ------------------------------------------------------------------ text */

/* The class of a vtable's symbol; malloc'ed, or NULL. */
static char *class_of(const char *symbol)
{
	static const char before[] = "vtable for ";
	char *name = limpet_demangle(symbol);

	if (name && !strncmp(name, before, strlen(before)))
		memmove(name, name + strlen(before), strlen(name) - strlen(before) + 1);
	return name;
}

/* "12 to 14", or "12" */
static const char *format_interval(bool whole, uint64_t low, uint64_t high,
				   char *(*format)(char *, uint64_t), char ret_text[80])
{
	char from[LIMPET_UNITS_TEXT], to[LIMPET_UNITS_TEXT];

	if (!whole)
		snprintf(ret_text, 80, ">= %s", format(from, low));
	else if (low == high)
		snprintf(ret_text, 80, "%s", format(from, low));
	else
		snprintf(ret_text, 80, "%s to %s", format(from, low), format(to, high));
	return ret_text;
}

static void print_amount(const struct limpet_census_amount *amount, const char *what, int width)
{
	const int room = width > TYPE_COLUMN + 16 ? width - TYPE_COLUMN : 16;
	char count[LIMPET_UNITS_TEXT], bytes[LIMPET_UNITS_TEXT];
	LIMPET_FREE char *name = strdup(what);

	printf("  %10s  %10s   %s\n", limpet_units_format_count(count, amount->blocks),
	       limpet_units_format_bytes(bytes, amount->bytes),
	       name ? limpet_ui_cut(name, room) : "?");
}

/* What both readings found, less what is known of it. */
static struct limpet_census_amount unknown_of(const struct limpet_census *census)
{
	const struct limpet_census_amount *all = &census->used.low;

	return (struct limpet_census_amount){
		.blocks = all->blocks - census->typed.blocks - census->strings.blocks,
		.bytes = all->bytes - census->typed.bytes - census->strings.bytes};
}

static void print_sizes(const struct limpet_census *census)
{
	printf("\n%s  %10s  %10s  %20s  %22s%s\n", limpet_ui_style(stdout, LIMPET_UI_DIM), "from",
	       "to", "blocks", "usable bytes", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	for (size_t i = 0; i < census->size_count; i++) {
		const struct limpet_census_size *size = &census->sizes[i];
		const struct limpet_census_interval *used = &size->used;
		char from[LIMPET_UNITS_TEXT], to[LIMPET_UNITS_TEXT], blocks[80], bytes[80];

		printf("  %10s  %10s  %20s  %22s\n",
		       limpet_units_format_bytes(from, size->from_bytes),
		       limpet_units_format_bytes(to, size->to_bytes),
		       format_interval(census->whole, used->low.blocks, used->high.blocks,
				       limpet_units_format_count, blocks),
		       format_interval(census->whole, used->low.bytes, used->high.bytes,
				       limpet_units_format_bytes, bytes));
	}
}

static void print_types(const struct limpet_census *census, int width)
{
	const struct limpet_census_amount unknown = unknown_of(census);
	struct limpet_census_amount others = {0};

	printf("\n%s  %10s  %10s   %s%s\n", limpet_ui_style(stdout, LIMPET_UI_DIM), "blocks",
	       "bytes", "what", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	for (size_t i = 0; i < census->type_count; i++) {
		const struct limpet_census_type *type = &census->types[i];
		char *name = i < ROWS ? class_of(type->symbol) : NULL;

		if (name) {
			print_amount(&type->used, name, width);
		} else {
			others.blocks += type->used.blocks;
			others.bytes += type->used.bytes;
		}
		free(name);
	}
	if (others.blocks)
		print_amount(&others, "other C++ types", width);
	print_amount(&census->strings, "strings", width);
	print_amount(&unknown, "of unknown contents", width);
	print_amount(&census->used.low, "all of these", width);
	print_amount(&census->untouched, "of these, never touched", width);
	print_amount(&census->cached, "not in use: caches of threads", width);
}

static const char *why_not_exact(const struct limpet_census *census)
{
	if (census->exact)
		return "the heap was quiet: exact";
	if (census->late)
		return "there was no time or memory for all of them";
	if (census->unread_arenas)
		return "some arenas could not be read";
	if (!census->whole)
		return "lists of free chunks or mapped blocks could not be read whole";
	return "the heap changed meanwhile: from what two readings both found to what one did";
}

static void print_glibc(const struct limpet_census *census, int width)
{
	char blocks[80], bytes[80], line[320];

	snprintf(line, sizeof(line), "In use in the heap of glibc: %s blocks, %s usable; %s.",
		 format_interval(census->whole, census->used.low.blocks, census->used.high.blocks,
				 limpet_units_format_count, blocks),
		 format_interval(census->whole, census->used.low.bytes, census->used.high.bytes,
				 limpet_units_format_bytes, bytes),
		 why_not_exact(census));
	printf("\n");
	limpet_ui_wrap(line, 0, width);
	print_sizes(census);
	print_types(census, width);
}

static void print_class(const struct limpet_class_census *census, int width)
{
	char blocks[80], bytes[80], line[320];

	if (!census->known) {
		snprintf(line, sizeof(line),
			 "The heap of %s could not be counted: its structures are not known.",
			 census->allocator);
		printf("\n");
		limpet_ui_wrap(line, 0, width);
		return;
	}
	snprintf(line, sizeof(line), "In the heap of %s, in use%s%s: %s blocks, %s usable; %s.",
		 census->allocator, census->caches ? " or in " : "",
		 census->caches ? census->caches : "",
		 format_interval(census->whole, census->used.low.blocks, census->used.high.blocks,
				 limpet_units_format_count, blocks),
		 format_interval(census->whole, census->used.low.bytes, census->used.high.bytes,
				 limpet_units_format_bytes, bytes),
		 census->exact ? "two readings agree"
		 : census->whole
			 ? "the heap changed meanwhile: the lower and the higher count of each "
			   "size"
			 : "not all of it could be read");
	printf("\n");
	limpet_ui_wrap(line, 0, width);
	printf("\n%s  %10s  %20s  %22s%s\n", limpet_ui_style(stdout, LIMPET_UI_DIM), "size",
	       "blocks", "usable bytes", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	for (size_t i = 0; i < census->size_count; i++) {
		const struct limpet_census_size *size = &census->sizes[i];
		char to[LIMPET_UNITS_TEXT];

		printf("  %10s  %20s  %22s\n", limpet_units_format_bytes(to, size->to_bytes),
		       format_interval(census->whole, size->used.low.blocks, size->used.high.blocks,
				       limpet_units_format_count, blocks),
		       format_interval(census->whole, size->used.low.bytes, size->used.high.bytes,
				       limpet_units_format_bytes, bytes));
	}
}

void limpet_census_print_text(const struct limpet_census *census,
			      const struct limpet_class_censuses *classes)
{
	const int width = limpet_ui_width(STDOUT_FILENO);

	if (census->has_glibc)
		print_glibc(census, width);
	for (size_t i = 0; i < classes->count; i++)
		print_class(&classes->list[i], width);
	if (!census->has_glibc && !classes->count)
		printf("\nThere is no heap of glibc's malloc, jemalloc, mimalloc or tcmalloc to "
		       "count.\n");
}

/* ------------------------------------------------------------------ JSON */

static json_t *amount_json(const struct limpet_census_amount *amount)
{
	return json_pack("{s:o,s:o}", "blocks", limpet_json_number(amount->blocks), "bytes",
			 limpet_json_number(amount->bytes));
}

/* Adds the interval's keys to the object. */
static json_t *set_interval(json_t *object, bool whole, const struct limpet_census_interval *used)
{
	object = limpet_json_set(object, "blocks_low", limpet_json_number(used->low.blocks));
	object = limpet_json_set(object, "blocks_high",
				 limpet_json_number_if(whole, used->high.blocks));
	object = limpet_json_set(object, "bytes_low", limpet_json_number(used->low.bytes));
	return limpet_json_set(object, "bytes_high",
			       limpet_json_number_if(whole, used->high.bytes));
}

static json_t *types_json(const struct limpet_census *census)
{
	json_t *list = json_array();

	for (size_t i = 0; i < census->type_count; i++) {
		char *name = class_of(census->types[i].symbol);
		json_t *object = amount_json(&census->types[i].used);

		object = limpet_json_set(object, "type", limpet_json_text(name));
		list = limpet_json_append(list, object);
		free(name);
	}
	return list;
}

static json_t *sizes_json(const struct limpet_census_size *list, size_t count, bool whole)
{
	json_t *sizes = json_array();

	for (size_t i = 0; i < count; i++) {
		json_t *item =
			json_pack("{s:o,s:o}", "from_bytes", limpet_json_number(list[i].from_bytes),
				  "to_bytes", limpet_json_number(list[i].to_bytes));

		sizes = limpet_json_append(sizes, set_interval(item, whole, &list[i].used));
	}
	return sizes;
}

static json_t *class_json(const struct limpet_class_census *census)
{
	json_t *object = json_object();

	object = limpet_json_set(object, "allocator", limpet_json_text(census->allocator));
	object = limpet_json_set(object, "exact", json_boolean(census->exact));
	object = limpet_json_set(object, "whole", json_boolean(census->whole));
	if (!census->known) {
		static const char *const keys[] = {"blocks_low", "blocks_high", "bytes_low",
						   "bytes_high", "sizes"};

		for (size_t i = 0; i < LIMPET_COUNT_OF(keys); i++)
			object = limpet_json_set(object, keys[i], json_null());
		return object;
	}
	object = set_interval(object, census->whole, &census->used);
	return limpet_json_set(object, "sizes",
			       sizes_json(census->sizes, census->size_count, census->whole));
}

json_t *limpet_class_censuses_json(const struct limpet_class_censuses *classes)
{
	json_t *list = json_array();

	for (size_t i = 0; i < classes->count; i++)
		list = limpet_json_append(list, class_json(&classes->list[i]));
	return list;
}

json_t *limpet_census_json(const struct limpet_census *census)
{
	json_t *object = json_object();

	if (!census->has_glibc) {
		json_decref(object);
		return json_null();
	}
	object = limpet_json_set(object, "exact", json_boolean(census->exact));
	object = limpet_json_set(object, "whole", json_boolean(census->whole));
	object = set_interval(object, census->whole, &census->used);
	object = limpet_json_set(object, "sizes",
				 sizes_json(census->sizes, census->size_count, census->whole));
	object = limpet_json_set(object, "cached", amount_json(&census->cached));
	object = limpet_json_set(object, "typed", amount_json(&census->typed));
	object = limpet_json_set(object, "strings", amount_json(&census->strings));
	object = limpet_json_set(object, "untouched", amount_json(&census->untouched));
	return limpet_json_set(object, "types", types_json(census));
}
