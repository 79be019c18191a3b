#include "cli/stack_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/symbols/symbolize.h"
#include "common/array.h"
#include "common/open_file.h"
#include "injector/proc/target_process.h"

/* What is known at one address. */
struct place {
	uint64_t address; /* of the code, in the process */
	size_t first, count;
};

struct limpet_stack_names {
	struct place *places; /* sorted */
	size_t place_count;
	struct limpet_stack_name *list;
	size_t count, capacity;
};

static uint64_t code_address(const struct limpet_stack_frame *frame)
{
	return frame->address - 1;
}

/* ------------------------------------------------------------------ addresses */

static int compare_places(const void *a, const void *b)
{
	const struct place *left = a, *right = b;

	return left->address < right->address ? -1 : left->address > right->address;
}

static int list_places(struct limpet_stack_names *names, const struct limpet_stacks *stacks)
{
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < stacks->count; i++)
		count += stacks->list[i].count;
	names->places = calloc(count + 1, sizeof(*names->places));
	if (!names->places)
		return -ENOMEM;
	count = 0;
	for (size_t i = 0; i < stacks->count; i++)
		for (uint32_t j = 0; j < stacks->list[i].count; j++)
			names->places[count++].address = code_address(&stacks->list[i].frames[j]);
	qsort(names->places, count, sizeof(*names->places), compare_places);
	for (size_t i = 0; i < count; i++)
		if (!kept || names->places[i].address != names->places[kept - 1].address)
			names->places[kept++] = names->places[i];
	names->place_count = kept;
	return 0;
}

/* ------------------------------------------------------------------ looking up */

static int copy_text(const char *text, char **ret)
{
	*ret = text ? strdup(text) : NULL;
	return text && !*ret ? -ENOMEM : 0;
}

static int add(struct limpet_stack_names *names, struct place *place,
	       const struct limpet_symbol *found, int count)
{
	if (count <= 0)
		return 0;
	if (limpet_reserve(&names->list, &names->capacity, names->count + (size_t)count,
			   sizeof(*names->list)) < 0)
		return -ENOMEM;
	place->first = names->count;
	place->count = (size_t)count;
	for (int i = 0; i < count; i++) {
		struct limpet_stack_name *name = &names->list[names->count++];

		*name = (struct limpet_stack_name){.line = found[i].line,
						   .inlined = found[i].inlined};
		if (copy_text(found[i].function, &name->function) < 0 ||
		    copy_text(found[i].file, &name->file) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* `bias` is subtracted from addresses. */
static int resolve(struct limpet_stack_names *names, struct limpet_symbolizer *symbolizer,
		   struct place *places, size_t count, uint64_t bias)
{
	uint64_t addresses[LIMPET_SYMBOLIZER_BATCH];
	int error = 0;

	for (size_t at = 0, some; at < count && !error; at += some) {
		some = count - at < LIMPET_COUNT_OF(addresses) ? count - at
							       : LIMPET_COUNT_OF(addresses);
		for (size_t i = 0; i < some; i++)
			addresses[i] = places[at + i].address - bias;
		limpet_symbolizer_prepare(symbolizer, addresses, some);
		for (size_t i = 0; i < some && !error; i++) {
			const struct limpet_symbol *found;
			int n = limpet_symbolizer_resolve(symbolizer, addresses[i], &found);

			error = add(names, &places[at + i], found, n);
		}
	}
	return error;
}

/* The file as it is mapped; its separate debug information by the paths that the process has. */
static int name_module(struct limpet_stack_names *names, const struct limpet_target *target,
		       const struct limpet_module *module, struct place *places, size_t count)
{
	LIMPET_CLOSE int fd = module->vdso ? -1 : limpet_module_open(target, module);
	struct limpet_symbolizer_options options = {
		.path = module->path,
		.fd = fd,
		.build_id = module->build_id_bytes ? module->build_id : NULL,
		.build_id_bytes = module->build_id_bytes,
	};
	struct limpet_symbolizer *symbolizer;
	char root[LIMPET_TARGET_ROOT_BYTES];
	int error;

	if (fd < 0)
		return 0;
	if (limpet_target_root(target, root))
		options.root = root;
	if (limpet_symbolizer_open(&options, &symbolizer, NULL) < 0)
		return 0;
	error = resolve(names, symbolizer, places, count, module->bias);
	limpet_symbolizer_close(symbolizer);
	return error;
}

/* Code in no module. */
static int name_made(struct limpet_stack_names *names, const struct limpet_stacks *stacks)
{
	LIMPET_CLOSE int fd = limpet_target_open_perf_map(stacks->modules.target);
	LIMPET_FREE uint64_t *addresses = calloc(names->place_count + 1, sizeof(*addresses));
	struct limpet_symbolizer *map;
	size_t count = 0;
	int error = 0;

	if (!addresses)
		return -ENOMEM;
	for (size_t i = 0; i < names->place_count; i++)
		if (!limpet_modules_find(&stacks->modules, names->places[i].address))
			addresses[count++] = names->places[i].address;
	if (fd < 0 || !count || limpet_symbolizer_read_map(fd, addresses, count, NULL, &map) < 0)
		return 0;
	for (size_t i = 0; i < names->place_count && !error; i++) {
		const struct limpet_symbol *found = NULL;
		int n;

		if (limpet_modules_find(&stacks->modules, names->places[i].address))
			continue;
		n = limpet_symbolizer_resolve(map, names->places[i].address, &found);
		error = add(names, &names->places[i], found, n);
	}
	limpet_symbolizer_close(map);
	return error;
}

static int look_up(struct limpet_stack_names *names, const struct limpet_stacks *stacks)
{
	int error = list_places(names, stacks);

	for (size_t at = 0, end; at < names->place_count && !error; at = end) {
		const struct limpet_module *module =
			limpet_modules_find(&stacks->modules, names->places[at].address);

		for (end = at + 1; module && end < names->place_count; end++)
			if (names->places[end].address >= module->end)
				break;
		if (module)
			error = name_module(names, stacks->modules.target, module,
					    &names->places[at], end - at);
	}
	return error ? error : name_made(names, stacks);
}

int limpet_stack_names_new(const struct limpet_stacks *stacks, struct limpet_stack_names **ret)
{
	struct limpet_stack_names *names = calloc(1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	if (look_up(names, stacks) < 0) {
		limpet_stack_names_free(names);
		return -ENOMEM;
	}
	*ret = names;
	return 0;
}

void limpet_stack_names_free(struct limpet_stack_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->count; i++) {
		free(names->list[i].function);
		free(names->list[i].file);
	}
	free(names->list);
	free(names->places);
	free(names);
}

size_t limpet_stack_names_at(const struct limpet_stack_names *names,
			     const struct limpet_stack_frame *frame,
			     const struct limpet_stack_name **ret_list)
{
	const struct place key = {.address = code_address(frame)};
	const struct place *place = bsearch(&key, names->places, names->place_count,
					    sizeof(*names->places), compare_places);

	if (!place || !place->count)
		return 0;
	*ret_list = &names->list[place->first];
	return place->count;
}
