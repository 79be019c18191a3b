#include "explain/vtables.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/elf/elf_file.h"

/* Itanium C++ ABI 2.5.2: two words come before the functions, unless there are virtual bases. */
#define ADDRESS_POINT 16u

struct reading {
	struct limpet_vtables *vtables;
	uint64_t bias;
	int error;
};

static bool add(void *context, const char *name, uint64_t value)
{
	struct reading *reading = context;
	struct limpet_vtables *vtables = reading->vtables;
	const size_t bytes = strlen(name) + 1;

	if (strncmp(name, "_ZTV", 4) != 0)
		return true;
	if (vtables->count == LIMPET_VTABLES_LIMIT ||
	    bytes > LIMPET_VTABLES_NAME_BYTES - vtables->name_bytes)
		return false;
	if (limpet_reserve(&vtables->list, &vtables->capacity, vtables->count + 1,
			   sizeof(*vtables->list)) < 0 ||
	    limpet_reserve(&vtables->names, &vtables->name_capacity, vtables->name_bytes + bytes,
			   1) < 0) {
		reading->error = -ENOMEM;
		return false;
	}
	vtables->list[vtables->count++] =
		(struct limpet_vtable){reading->bias + value + ADDRESS_POINT, vtables->name_bytes};
	memcpy(vtables->names + vtables->name_bytes, name, bytes);
	vtables->name_bytes += bytes;
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct limpet_vtable *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return left->name < right->name ? -1 : left->name > right->name;
}

int limpet_vtables_read(const struct limpet_modules *modules, struct limpet_vtables *ret_vtables)
{
	struct limpet_vtables vtables = {0};
	struct reading reading = {.vtables = &vtables};
	size_t kept = 0;

	for (size_t i = 0; i < modules->count && !reading.error; i++) {
		const struct limpet_module *module = &modules->list[i];
		LIMPET_CLOSE int fd = module->vdso || module->agent
					      ? -1
					      : limpet_module_open(modules->target, module);
		struct limpet_elf_file *file;

		if (fd < 0 || limpet_elf_file_open(fd, &file) < 0)
			continue;
		reading.bias = module->bias;
		/* A file that cannot be read has no names. */
		(void)limpet_elf_file_objects(file, add, &reading);
		limpet_elf_file_free(file);
	}
	if (reading.error) {
		limpet_vtables_done(&vtables);
		return reading.error;
	}
	if (vtables.count)
		qsort(vtables.list, vtables.count, sizeof(*vtables.list), compare);
	for (size_t i = 0; i < vtables.count; i++)
		if (!kept || vtables.list[kept - 1].address != vtables.list[i].address)
			vtables.list[kept++] = vtables.list[i];
	vtables.count = kept;
	*ret_vtables = vtables;
	return 0;
}

void limpet_vtables_done(struct limpet_vtables *vtables)
{
	free(vtables->list);
	free(vtables->names);
	*vtables = (struct limpet_vtables){0};
}

int64_t limpet_vtables_find(const struct limpet_vtables *vtables, uint64_t address)
{
	const struct limpet_vtable *list = vtables->list;
	/* cppcheck-suppress constStatement */
	size_t at = LIMPET_PARTITION_POINT(i, vtables->count, list[i].address < address);

	return at < vtables->count && list[at].address == address ? (int64_t)at : -1;
}
