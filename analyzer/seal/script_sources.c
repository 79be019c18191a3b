#include "analyzer/seal/script_sources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/symbols/source_map.h"
#include "analyzer/symbols/symbolize.h"
#include "common/array.h"
#include "common/begins.h"

/* Each is read by a process of its own; the end of a capture waits. */
#define SCRIPTS_MAX 1024u

/* A frame of generated JavaScript. */
struct place {
	const char *script; /* as V8 calls it; of the model */
	uint64_t at;        /* LIMPET_SCRIPT_PLACE */
	size_t address;     /* in the list */
	uint32_t frame;     /* of it */
	const char *file;   /* what was found; NULL: nothing */
	uint32_t line;
};
struct places {
	struct place *list;
	size_t count, capacity;
};

static const char *path_of(const char *script)
{
	const char *path = limpet_begins(script, "file://") ? script + strlen("file://") : script;

	return *path == '/' ? path : NULL;
}

static int add_places(const struct limpet_model *model, const struct limpet_model_address *address,
		      size_t index, struct places *places)
{
	const struct limpet_model_frame *frames;
	const uint32_t count = limpet_model_symbols(model, 0, address->address, &frames);

	for (uint32_t i = 0; i < count; i++) {
		if (!frames[i].file || !frames[i].line || !frames[i].column ||
		    !path_of(frames[i].file))
			continue;
		if (limpet_reserve(&places->list, &places->capacity, places->count + 1,
				   sizeof(*places->list)) < 0)
			return -ENOMEM;
		places->list[places->count++] =
			(struct place){.script = frames[i].file,
				       .at = LIMPET_SCRIPT_PLACE(frames[i].line, frames[i].column),
				       .address = index,
				       .frame = i};
	}
	return 0;
}

static int by_script(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	const int order = strcmp(x->script, y->script);

	return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int by_address(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Of one script; what is found lives as long as *ret_symbolizer, NULL if there is no map. */
static int look_up(struct place *list, size_t count,
		   const struct limpet_script_sources_options *options,
		   struct limpet_symbolizer **ret_symbolizer)
{
	LIMPET_FREE uint64_t *at = calloc(count, sizeof(*at));
	int code;

	if (!at)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		at[i] = list[i].at;
	code = limpet_symbolizer_read_script(options->root, path_of(list[0].script), at, count,
					     options->cancel, ret_symbolizer);
	for (size_t i = 0; code == 0 && i < count; i++) {
		const struct limpet_symbol *found;

		if (limpet_symbolizer_resolve(*ret_symbolizer, at[i], &found) <= 0)
			continue;
		list[i].file = found->file;
		list[i].line = found->line;
	}
	return code == -ENOMEM || code == -EINTR ? code : 0;
}

/* The places of one address. */
static int notify(const struct limpet_model *model, const struct limpet_model_address *address,
		  const struct place *list, size_t count,
		  const struct limpet_script_sources_options *options)
{
	struct limpet_model_frame frames[LIMPET_SYMBOL_MAX_INLINED];
	const struct limpet_model_frame *known;
	const uint32_t all = limpet_model_symbols(model, 0, address->address, &known);
	bool changed = false;

	if (all > LIMPET_COUNT_OF(frames))
		return 0;
	memcpy(frames, known, all * sizeof(*frames));
	for (size_t i = 0; i < count; i++) {
		if (!list[i].file || list[i].frame >= all)
			continue;
		frames[list[i].frame].file = list[i].file;
		frames[list[i].frame].line = list[i].line;
		frames[list[i].frame].column = 0;
		changed = true;
	}
	return changed ? options->found(options->context, address, frames, all) : 0;
}

static int notify_all(const struct limpet_model *model,
		      const struct limpet_model_address *addresses, struct places *places,
		      const struct limpet_script_sources_options *options)
{
	int code = 0;

	qsort(places->list, places->count, sizeof(*places->list), by_address);
	for (size_t i = 0, end; i < places->count && code == 0; i = end) {
		for (end = i + 1;
		     end < places->count && places->list[end].address == places->list[i].address;
		     end++)
			;
		code = notify(model, &addresses[places->list[i].address], &places->list[i], end - i,
			      options);
	}
	return code;
}

static int look_up_all(struct places *places, const struct limpet_script_sources_options *options,
		       struct limpet_symbolizer **symbolizers)
{
	unsigned scripts = 0;
	int code = 0;

	qsort(places->list, places->count, sizeof(*places->list), by_script);
	for (size_t i = 0, end; i < places->count && code == 0 && scripts < SCRIPTS_MAX; i = end) {
		for (end = i + 1; end < places->count &&
				  !strcmp(places->list[end].script, places->list[i].script);
		     end++)
			;
		code = look_up(&places->list[i], end - i, options, &symbolizers[scripts++]);
	}
	return code;
}

int limpet_script_sources_find(const struct limpet_model *model,
			       const struct limpet_model_address *list, size_t count,
			       const struct limpet_script_sources_options *options)
{
	LIMPET_FREE struct limpet_symbolizer **symbolizers =
		calloc(SCRIPTS_MAX, sizeof(*symbolizers));
	struct places places = {.list = NULL};
	int code = symbolizers ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && code == 0; i++)
		code = add_places(model, &list[i], i, &places);
	if (code == 0 && places.count)
		code = look_up_all(&places, options, symbolizers);
	if (code == 0 && places.count)
		code = notify_all(model, list, &places, options);
	for (unsigned i = 0; symbolizers && i < SCRIPTS_MAX; i++)
		limpet_symbolizer_close(symbolizers[i]);
	free(places.list);
	return code;
}
