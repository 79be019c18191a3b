#include "cli/holders_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/symbols/demangle.h"
#include "analyzer/text/json_printer.h"
#include "cli/json_output.h"
#include "cli/ui.h"
#include "cli/variable_names.h"
#include "common/units.h"

/* Columns of a root's name, behind which its place stands. */
enum { NAME_COLUMNS = 40 };

/* ------------------------------------------------------------------ words */

char *limpet_holders_class_of(const char *symbol)
{
	static const char before[] = "vtable for ";
	char *name = limpet_demangle(symbol);

	if (name && !strncmp(name, before, strlen(before)))
		memmove(name, name + strlen(before), strlen(name) - strlen(before) + 1);
	return name;
}

/* NULL: no memory. */
__attribute__((format(printf, 1, 2))) static char *words(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	return text ? limpet_ui_clean(text) : NULL;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static char *thread_words(const struct limpet_holder_root *root, const char *what)
{
	if (!root->thread)
		return words("%s of a thread", what);
	if (!root->thread_name[0])
		return words("%s of thread %d", what, root->thread);
	return words("%s of thread %d (%s)", what, root->thread, root->thread_name);
}

char *limpet_holders_place_words(const struct limpet_holder_root *root)
{
	switch (root->kind) {
	case LIMPET_PLACE_DATA:
		return words("data of %s", last_part(root->module->path));
	case LIMPET_PLACE_STACK:
		return thread_words(root, "stack");
	case LIMPET_PLACE_LOCAL:
		return thread_words(root, "thread-local data");
	case LIMPET_PLACE_HEAP:
		return words("heap");
	case LIMPET_PLACE_MAPPING:
		return root->mapping[0]
			       ? words("%s", root->mapping)
			       : words("anonymous mapping at 0x%" PRIx64, root->mapping_start);
	case LIMPET_PLACE_NOTHING:
		break;
	}
	return words("nothing");
}

/* "registry (server.c:31)", or the address. */
static char *root_words(const struct limpet_holders_chain_shown *shown)
{
	const struct limpet_symbol_variable *variable = &shown->variable;
	const struct limpet_holder_root *root = &shown->chain.root;

	if (!shown->has_variable)
		return root->kind == LIMPET_PLACE_DATA
			       ? words("0x%" PRIx64 " in %s", root->address - root->module->bias,
				       last_part(root->module->path))
			       : words("0x%" PRIx64, root->address);
	return limpet_variable_words(variable);
}

/* "Session", "a block of 2.0 MiB" */
static char *block_words(const struct limpet_holder_link *link)
{
	char bytes[LIMPET_UNITS_TEXT];
	char *type = link->type ? limpet_holders_class_of(link->type) : NULL;

	return type ? limpet_ui_clean(type)
		    : words("a block of %s", limpet_units_format_bytes(bytes, link->bytes));
}

/* Of the first one: in the variable. */
static uint64_t offset_of(const struct limpet_holders_chain_shown *shown, size_t link)
{
	if (link)
		return shown->chain.links[link].offset;
	return shown->has_variable ? shown->chain.root.address - shown->variable.start : 0;
}

/* ------------------------------------------------------------------ text */

static const char *format_amount(const struct limpet_holder_amount *amount, char ret_text[80])
{
	char bytes[LIMPET_UNITS_TEXT], count[LIMPET_UNITS_TEXT];

	snprintf(ret_text, 80, "%s in %s block%s", limpet_units_format_bytes(bytes, amount->bytes),
		 limpet_units_format_count(count, amount->blocks), amount->blocks == 1 ? "" : "s");
	return ret_text;
}

/* "Session, 64 B at 0x55d0c3a1b2c0, is held by" */
static void say_target(const struct limpet_holders_shown *shown)
{
	const char *end = shown->count ? "is held by" : "is held by nothing that was searched.";
	LIMPET_FREE char *what = shown->type ? NULL : block_words(&shown->block);
	char bytes[LIMPET_UNITS_TEXT], amount[80];

	printf("%s", limpet_ui_style(stdout, LIMPET_UI_BOLD));
	if (shown->type)
		limpet_ui_say("%s, %s, %s", shown->type, format_amount(&shown->chosen, amount),
			      end);
	else if (shown->block.type)
		limpet_ui_say("%s, %s at 0x%" PRIx64 ", %s", what ? what : "?",
			      limpet_units_format_bytes(bytes, shown->block.bytes),
			      shown->block.address, end);
	else
		limpet_ui_say("The block of %s at 0x%" PRIx64 " %s",
			      limpet_units_format_bytes(bytes, shown->block.bytes),
			      shown->block.address, end);
	printf("%s", limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	if (!shown->count)
		limpet_ui_say("It may be lost (limpet leaks %d), or in a register.", shown->pid);
}

static void print_root(const struct limpet_holders_chain_shown *shown)
{
	LIMPET_FREE char *name = root_words(shown);
	LIMPET_FREE char *place = limpet_holders_place_words(&shown->chain.root);

	printf("  %-*s  %s%s%s\n", NAME_COLUMNS, name ? name : "?",
	       limpet_ui_style(stdout, LIMPET_UI_DIM), place ? place : "?",
	       limpet_ui_style(stdout, LIMPET_UI_PLAIN));
}

/* How many links from this one on are alike: a list. */
static size_t count_alike(const struct limpet_holder_chain *chain, size_t from)
{
	const struct limpet_holder_link *links = chain->links;
	size_t end = from + 1;

	while (from && end < chain->count && links[end].offset == links[from].offset &&
	       links[end].bytes == links[from].bytes && links[end].type == links[from].type)
		end++;
	return end - from;
}

static void print_link(const struct limpet_holders_chain_shown *shown, size_t at, size_t alike)
{
	const struct limpet_holder_link *link = &shown->chain.links[at];
	LIMPET_FREE char *what = block_words(link);
	char offset[32] = "";

	if (at || shown->has_variable)
		snprintf(offset, sizeof(offset), "+0x%" PRIx64, offset_of(shown, at));
	printf("    %-7s  %s", offset, what ? what : "?");
	if (alike > 1)
		printf(", %zu times", alike);
	if (at + alike == shown->chain.count)
		printf("%s  0x%" PRIx64 "%s", limpet_ui_style(stdout, LIMPET_UI_DIM),
		       shown->chain.links[at + alike - 1].address,
		       limpet_ui_style(stdout, LIMPET_UI_PLAIN));
	if (link->into && alike == 1)
		printf(", into which it points at +0x%" PRIx64, link->into);
	printf("\n");
}

static void print_chain(const struct limpet_holders_chain_shown *shown)
{
	print_root(shown);
	for (size_t i = 0, alike; i < shown->chain.count; i += alike) {
		alike = count_alike(&shown->chain, i);
		/* Two in a row are no list. */
		alike = alike > 2 ? alike : 1;
		print_link(shown, i, alike);
	}
}

static void say_retained(const struct limpet_holders_shown *shown)
{
	const struct limpet_symbol_variable *last = NULL;
	char amount[80];

	limpet_ui_say("Freeing %s would free at most %s.",
		      shown->chosen.blocks == 1 ? "it" : "them",
		      format_amount(&shown->retained, amount));
	for (size_t i = 0; i < shown->count; i++) {
		const struct limpet_holders_chain_shown *chain = &shown->chains[i];

		if (!chain->has_retained || chain->retained.blocks <= shown->retained.blocks ||
		    (last && last->start == chain->variable.start))
			continue;
		last = &chain->variable;
		limpet_ui_say("Freeing all that only %s holds would free at most %s.", last->name,
			      format_amount(&chain->retained, amount));
	}
}

/* Why something may be missing. */
static void say_doubts(const struct limpet_holders_facts *facts)
{
	char bytes[LIMPET_UNITS_TEXT];

	if (facts->is_swapped)
		limpet_ui_say("A part of the process is swapped out, and was not searched.");
	if (facts->missed_bytes)
		limpet_ui_say("%s of its memory could not be read.",
			      limpet_units_format_bytes(bytes, facts->missed_bytes));
	if (facts->is_cut)
		limpet_ui_say("There are more pointers than were kept: holders may be missing.");
	if (facts->unread_arenas)
		limpet_ui_say("%zu arenas of malloc could not be read: their blocks are not known.",
			      facts->unread_arenas);
}

int limpet_holders_print_text(const struct limpet_holders_shown *shown)
{
	say_target(shown);
	for (size_t i = 0; i < shown->count; i++) {
		print_chain(&shown->chains[i]);
		printf("\n");
	}
	say_retained(shown);
	say_doubts(shown->facts);
	return limpet_ui_finish(LIMPET_EXIT_OK);
}

/* ------------------------------------------------------------------ JSON */

static json_t *amount_json(const struct limpet_holder_amount *amount)
{
	return json_pack("{s:o,s:o}", "blocks", limpet_json_number(amount->blocks), "bytes",
			 limpet_json_number(amount->bytes));
}

static json_t *address_json(uint64_t address)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	return json_string(text);
}

static json_t *type_json(const char *symbol)
{
	LIMPET_FREE char *type = symbol ? limpet_holders_class_of(symbol) : NULL;

	return limpet_json_text(type);
}

static json_t *root_json(const struct limpet_holders_chain_shown *shown)
{
	static const char *const kinds[] = {"mapping", "mapping", "data",
					    "stack",   "thread",  "mapping"};
	const struct limpet_holder_root *root = &shown->chain.root;
	const struct limpet_symbol_variable *variable =
		shown->has_variable ? &shown->variable : NULL;
	json_t *object = json_object();

	object = limpet_json_set(object, "kind", json_string(kinds[root->kind]));
	object = limpet_json_set(object, "address", address_json(root->address));
	object = limpet_json_set(object, "symbol",
				 limpet_json_text(variable ? variable->name : NULL));
	object =
		limpet_json_set(object, "file", limpet_json_text(variable ? variable->file : NULL));
	object = limpet_json_set(object, "line", limpet_json_known(variable ? variable->line : 0));
	object = limpet_json_set(object, "module",
				 limpet_json_text(root->module ? root->module->path : NULL));
	object = limpet_json_set(object, "mapping", limpet_json_text(root->mapping));
	object = limpet_json_set(object, "thread", limpet_json_known((uint64_t)root->thread));
	object = limpet_json_set(object, "thread_name", limpet_json_text(root->thread_name));
	return limpet_json_set(object, "retained",
			       shown->has_retained ? amount_json(&shown->retained) : json_null());
}

static json_t *link_json(const struct limpet_holders_chain_shown *shown, size_t at)
{
	const struct limpet_holder_link *link = &shown->chain.links[at];
	json_t *object = json_object();

	object = limpet_json_set(
		object, "offset",
		limpet_json_number_if(at || shown->has_variable, offset_of(shown, at)));
	object = limpet_json_set(object, "address", address_json(link->address));
	object = limpet_json_set(object, "into", limpet_json_number(link->into));
	object = limpet_json_set(object, "bytes", limpet_json_number(link->bytes));
	return limpet_json_set(object, "type", type_json(link->type));
}

static json_t *chain_json(const struct limpet_holders_chain_shown *shown)
{
	json_t *links = json_array();

	for (size_t i = 0; i < shown->chain.count; i++)
		links = limpet_json_append(links, link_json(shown, i));
	return limpet_json_set(limpet_json_set(json_object(), "root", root_json(shown)), "links",
			       links);
}

static json_t *target_json(const struct limpet_holders_shown *shown)
{
	json_t *object = json_object();

	object = limpet_json_set(object, "address",
				 shown->type ? json_null() : address_json(shown->block.address));
	return limpet_json_set(object, "type",
			       shown->type ? limpet_json_text(shown->type)
					   : type_json(shown->block.type));
}

int limpet_holders_print_json(const struct limpet_holders_shown *shown)
{
	const struct limpet_holders_facts *facts = shown->facts;
	json_t *object = json_object(), *chains = json_array();

	for (size_t i = 0; i < shown->count; i++)
		chains = limpet_json_append(chains, chain_json(&shown->chains[i]));
	object = limpet_json_set(object, "format", json_string("limpet-holders"));
	object = limpet_json_set(object, "version", json_integer(1));
	object = limpet_json_set(object, "pid", json_integer(shown->pid));
	object = limpet_json_set(object, "command", limpet_json_text(shown->command));
	object = limpet_json_set(object, "target", target_json(shown));
	object = limpet_json_set(object, "blocks",
				 json_pack("{s:o,s:o}", "count",
					   limpet_json_number(shown->chosen.blocks), "bytes",
					   limpet_json_number(shown->chosen.bytes)));
	object = limpet_json_set(object, "chains", chains);
	object = limpet_json_set(object, "retained", amount_json(&shown->retained));
	object = limpet_json_set(object, "searched_bytes",
				 limpet_json_number(facts->searched_bytes));
	object = limpet_json_set(object, "missed_bytes", limpet_json_number(facts->missed_bytes));
	object = limpet_json_set(object, "swapped", json_boolean(facts->is_swapped));
	object = limpet_json_set(object, "unread_arenas", limpet_json_number(facts->unread_arenas));
	return limpet_json_output(limpet_json_set(object, "cut", json_boolean(facts->is_cut)),
				  LIMPET_EXIT_OK);
}
