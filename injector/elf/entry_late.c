#include "injector/elf/entry_late.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/elf/entry_find.h"
#include "injector/elf/preflight_allocators.h"

/* Limits the work for a program that keeps loading new files. */
#define MAX_KNOWN 65536u

static bool is_known(const struct limpet_entry_late *late, const struct limpet_module *module)
{
	for (size_t i = 0; i < late->known_count; i++) {
		const struct limpet_entry_late_module *known = &late->known[i];

		if (known->bias == module->bias && known->phdr == module->phdr &&
		    known->inode == module->inode && known->dev_major == module->dev_major &&
		    known->dev_minor == module->dev_minor)
			return true;
	}
	return false;
}

static int note(struct limpet_entry_late *late, const struct limpet_module *module)
{
	if (limpet_reserve(&late->known, &late->known_capacity, late->known_count + 1,
			   sizeof(*late->known)) < 0)
		return -ENOMEM;
	late->known[late->known_count] = (struct limpet_entry_late_module){
		.bias = module->bias,
		.phdr = module->phdr,
		.inode = module->inode,
		.dev_major = module->dev_major,
		.dev_minor = module->dev_minor,
	};
	late->known_count++;
	return 0;
}

int limpet_entry_late_begin(struct limpet_entry_late *late, const struct limpet_modules *modules)
{
	int error = 0;

	for (size_t i = 0; i < modules->count && !error; i++)
		error = note(late, &modules->list[i]);
	return error;
}

static int scan_module(struct limpet_entry_late *late, struct limpet_modules *modules, size_t index,
		       const struct limpet_entry_list *list)
{
	const char *path = modules->list[index].path, *slash = strrchr(path, '/');
	struct limpet_entries entries;
	int error = limpet_entries_find_in(modules, index, list, &entries);
	size_t functions;

	if (error)
		return error;
	functions = entries.count + entries.refused + !!limpet_garbage_collector_of_library(path);
	if (functions && !late->functions)
		snprintf(late->first, sizeof(late->first), "%s", slash ? slash + 1 : path);
	late->functions += functions;
	limpet_entries_done(&entries);
	return 0;
}

int limpet_entry_late_scan(struct limpet_entry_late *late, struct limpet_modules *modules,
			   const struct limpet_entry_list *list)
{
	int error = 0;

	for (size_t i = 0; i < modules->count && !error; i++) {
		const struct limpet_module *module = &modules->list[i];

		if (late->known_count >= MAX_KNOWN || is_known(late, module))
			continue;
		error = note(late, module);
		if (!error)
			error = scan_module(late, modules, i, list);
	}
	return error;
}

void limpet_entry_late_done(struct limpet_entry_late *late)
{
	free(late->known);
	memset(late, 0, sizeof(*late));
}
