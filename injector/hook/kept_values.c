#include "injector/hook/kept_values.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/proc/memory.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

#define WINDOW_WORDS 8192u
#define WINDOW_BYTES (WINDOW_WORDS * sizeof(uint64_t))
/* What is read of one module: a tenth of a second. */
#define MAX_BYTES ((uint64_t)64 << 20)

struct search {
	const struct limpet_kept_values *kept;
	const struct limpet_module *module;
	struct limpet_pages *pages;
	uint64_t *places; /* of all slots, sorted */
	size_t place_count;
	/* The values of the module's variables, each once, and which of them were found. */
	uint64_t values[LIMPET_MAX_HOOKS];
	bool found[LIMPET_MAX_HOOKS];
	size_t value_count, found_count;
	uint64_t bytes_left;
	uint64_t window[WINDOW_WORDS];
};

static int compare(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static bool is_variable_of(const struct limpet_slot *slot, const struct limpet_module *module)
{
	return slot->kind == LIMPET_SLOT_OF_VARIABLE && slot->module == module->bias &&
	       slot->module_phdr == module->phdr;
}

static size_t value_at(const struct search *search, uint64_t value)
{
	size_t i = 0;

	while (i < search->value_count && search->values[i] != value)
		i++;
	return i;
}

static void note_values(struct search *search, const struct limpet_slot *slots, uint32_t count)
{
	search->value_count = search->found_count = 0;
	memset(search->found, 0, sizeof(search->found));
	for (uint32_t i = 0; i < count; i++)
		if (is_variable_of(&slots[i], search->module) &&
		    value_at(search, slots[i].old_value) == search->value_count &&
		    search->value_count < LIMPET_MAX_HOOKS)
			search->values[search->value_count++] = slots[i].old_value;
}

static void scan_words(struct search *search, uint64_t at, size_t count)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (size_t i = 0; i < search->value_count; i++) {
		low = search->values[i] < low ? search->values[i] : low;
		high = search->values[i] > high ? search->values[i] : high;
	}
	for (size_t i = 0; i < count; i++) {
		const uint64_t place = at + i * sizeof(uint64_t), value = search->window[i];
		size_t k;

		if (value < low || value > high)
			continue;
		k = value_at(search, value);
		if (k == search->value_count || search->found[k] ||
		    bsearch(&place, search->places, search->place_count, sizeof(place), compare))
			continue;
		search->found[k] = true;
		search->found_count++;
	}
}

/* Whole pages. Through /proc/PID/mem, which gives the process no copy of a page that it shares with
 * the process that forked it. */
static int read_range(struct search *search, uint64_t start, uint64_t end)
{
	while (start < end && search->found_count < search->value_count) {
		const size_t bytes =
			end - start < WINDOW_BYTES ? (size_t)(end - start) : WINDOW_BYTES;

		if (search->bytes_left < bytes)
			return -EFBIG;
		search->bytes_left -= bytes;
		if (limpet_memory_read_own(search->kept->modules->target->pid, start,
					   search->window, bytes) < 0)
			return -EIO;
		scan_words(search, start, bytes / sizeof(uint64_t));
		start += bytes;
	}
	return 0;
}

static int read_map(struct search *search, const struct limpet_map *map)
{
	const struct limpet_module *module = search->module;
	const uint64_t end = map->end < module->end ? map->end : module->end;
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
	uint64_t at = map->start;
	int error = 0;

	while (at < end && !error) {
		const int count =
			limpet_pages_next(search->pages, at, end, map->inode, ranges, &at);

		if (count < 0)
			return count;
		for (int i = 0; i < count && !error; i++)
			error = read_range(search, ranges[i].start, ranges[i].end);
	}
	return error;
}

/* Data and what follows it (.bss); others may lie between a module's parts. */
static bool is_data(const struct limpet_module *module, const struct limpet_map *map)
{
	return map->start >= module->start && map->start < module->end && map->perms[0] == 'r' &&
	       map->perms[1] == 'w' && map->perms[3] == 'p' &&
	       (map->inode ? limpet_module_is_of(module, map) : limpet_map_is_anonymous(map));
}

/* Of the module's variables. In doubt all their values are taken for kept ones. */
static void find_kept(struct search *search)
{
	const struct limpet_maps *maps = &search->kept->modules->maps;
	int error = 0;

	search->bytes_left = MAX_BYTES;
	for (size_t i = 0; i < maps->count && !error; i++)
		if (is_data(search->module, &maps->list[i]))
			error = read_map(search, &maps->list[i]);
	if (error)
		memset(search->found, true, sizeof(search->found));
}

/* Whether the slot is in the program's copy of a variable of that module. */
static bool is_copy_of(const struct search *search, const struct limpet_slot *slot)
{
	const struct limpet_kept_values *kept = search->kept;

	for (size_t i = 0; i < kept->copied_count; i++)
		if (slot->address - kept->copied[i].to < kept->copied[i].bytes &&
		    kept->copied[i].from >= search->module->start &&
		    kept->copied[i].from < search->module->end)
			return true;
	return false;
}

static int remove_kept(const struct search *search, struct limpet_slot *slots, uint32_t *count)
{
	uint32_t stay = 0;
	int out;

	for (uint32_t i = 0; i < *count; i++) {
		const size_t k = value_at(search, slots[i].old_value);

		if (slots[i].kind != LIMPET_SLOT_OF_VARIABLE || k == search->value_count ||
		    !search->found[k] ||
		    (!is_variable_of(&slots[i], search->module) && !is_copy_of(search, &slots[i])))
			slots[stay++] = slots[i];
	}
	out = (int)(*count - stay);
	*count = stay;
	return out;
}

static int new_search(const struct limpet_kept_values *kept, const struct limpet_slot *slots,
		      uint32_t count, struct search **ret)
{
	struct search *search = calloc(1, sizeof(*search));

	if (!search)
		return -ENOMEM;
	search->kept = kept;
	search->places = calloc(count + 1, sizeof(*search->places));
	if (!search->places ||
	    limpet_pages_new(kept->modules->target, LIMPET_PAGES_SCAN, &search->pages) < 0) {
		free(search->places);
		free(search);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++)
		search->places[search->place_count++] = slots[i].address;
	qsort(search->places, search->place_count, sizeof(*search->places), compare);
	*ret = search;
	return 0;
}

int limpet_kept_values_leave(const struct limpet_kept_values *kept, struct limpet_slot *slots,
			     uint32_t *count)
{
	struct search *search;
	int error = new_search(kept, slots, *count, &search), out = 0;

	if (error)
		return error;
	for (size_t i = 0; i < kept->modules->count; i++) {
		search->module = &kept->modules->list[i];
		note_values(search, slots, *count);
		if (!search->value_count)
			continue;
		find_kept(search);
		out += remove_kept(search, slots, count);
	}
	limpet_pages_free(search->pages);
	free(search->places);
	free(search);
	return out;
}
