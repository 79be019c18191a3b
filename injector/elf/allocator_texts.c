#include "injector/elf/allocator_texts.h"

#include <stdbool.h>
#include <string.h>

#include "injector/elf/allocators.h"

#define LOWER "malloc"
#define UPPER "MALLOC"
#define TEXTS_NEEDED 2

struct search {
	bool is_upper;
	unsigned groups[LIMPET_ALLOCATORS_MOST]; /* bits of those that were found */
};

static bool is_enough(unsigned groups)
{
	return __builtin_popcount(groups) >= TEXTS_NEEDED;
}

static bool visit(void *context, const char *at, size_t before, size_t after)
{
	const size_t needle = strlen(LOWER);
	struct search *search = context;

	for (size_t i = 0; limpet_allocators[i]; i++)
		for (const struct limpet_allocator_text *text = limpet_allocators[i]->texts;
		     text && text->tail; text++) {
			const size_t head = strlen(text->head), tail = strlen(text->tail);

			if (text->is_upper != search->is_upper || before < head ||
			    after < needle + tail || memcmp(at - head, text->head, head) != 0 ||
			    memcmp(at + needle, text->tail, tail) != 0)
				continue;
			search->groups[i] |= 1u << text->group;
			if (is_enough(search->groups[i]))
				return false;
		}
	return true;
}

/* A second pass is made only for an allocator of which the first found something. */
static bool is_worth_another(const struct search *search)
{
	for (size_t i = 0; limpet_allocators[i]; i++)
		for (const struct limpet_allocator_text *text = limpet_allocators[i]->texts;
		     search->groups[i] && text->tail; text++)
			if (text->is_upper)
				return true;
	return false;
}

static const char *found_in(const struct search *search)
{
	for (size_t i = 0; limpet_allocators[i]; i++)
		if (is_enough(search->groups[i]))
			return limpet_allocators[i]->name;
	return NULL;
}

const char *limpet_allocator_texts_find(const struct limpet_elf_file *file)
{
	struct search search = {.is_upper = false};
	const char *name;

	/* What was read before an error counts. */
	(void)limpet_elf_file_search(file, LOWER, visit, &search);
	name = found_in(&search);
	if (name || !is_worth_another(&search))
		return name;
	search.is_upper = true;
	(void)limpet_elf_file_search(file, UPPER, visit, &search);
	return found_in(&search);
}
