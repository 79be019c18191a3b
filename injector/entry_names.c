#include "injector/entry_names.h"

#include <string.h>

#include "common/err.h"
#include "common/family.h"

struct word {
	const char *name;
	enum limpet_op op;
};

/* jemalloc(3). xallocx is left out: a block that grew in place keeps its old size in the books. */
static const struct word jemalloc_words[] = {
	{"malloc", LIMPET_OP_MALLOC},
	{"calloc", LIMPET_OP_CALLOC},
	{"realloc", LIMPET_OP_REALLOC},
	{"reallocarray", LIMPET_OP_REALLOCARRAY},
	{"free", LIMPET_OP_FREE},
	{"posix_memalign", LIMPET_OP_POSIX_MEMALIGN},
	{"aligned_alloc", LIMPET_OP_MEMALIGN},
	{"memalign", LIMPET_OP_MEMALIGN},
	{"valloc", LIMPET_OP_MALLOC},
	{"pvalloc", LIMPET_OP_MALLOC},
	{"mallocx", LIMPET_OP_MALLOC},
	{"rallocx", LIMPET_OP_REALLOC},
	{"dallocx", LIMPET_OP_FREE},
	{"sdallocx", LIMPET_OP_FREE},
	{"free_sized", LIMPET_OP_FREE},
	{"free_aligned_sized", LIMPET_OP_FREE},
	{"malloc_usable_size", LIMPET_OP_NONE},
};

/* mimalloc.h. Where the size comes first, an alignment behind it is of no interest. Functions of a
 * heap have one argument more in front: those of them that look like memalign are tracked. */
static const struct word mimalloc_words[] = {
	{"malloc", LIMPET_OP_MALLOC},
	{"zalloc", LIMPET_OP_MALLOC},
	{"malloc_small", LIMPET_OP_MALLOC},
	{"zalloc_small", LIMPET_OP_MALLOC},
	{"calloc", LIMPET_OP_CALLOC},
	{"mallocn", LIMPET_OP_CALLOC},
	{"realloc", LIMPET_OP_REALLOC},
	{"reallocf", LIMPET_OP_REALLOC},
	{"rezalloc", LIMPET_OP_REALLOC},
	{"expand", LIMPET_OP_REALLOC},
	{"reallocn", LIMPET_OP_REALLOCARRAY},
	{"reallocarray", LIMPET_OP_REALLOCARRAY},
	{"recalloc", LIMPET_OP_REALLOCARRAY},
	{"free", LIMPET_OP_FREE},
	{"cfree", LIMPET_OP_FREE},
	{"free_size", LIMPET_OP_FREE},
	{"free_size_aligned", LIMPET_OP_FREE},
	{"free_aligned", LIMPET_OP_FREE},
	{"malloc_aligned", LIMPET_OP_MALLOC},
	{"malloc_aligned_at", LIMPET_OP_MALLOC},
	{"zalloc_aligned", LIMPET_OP_MALLOC},
	{"zalloc_aligned_at", LIMPET_OP_MALLOC},
	{"calloc_aligned", LIMPET_OP_CALLOC},
	{"calloc_aligned_at", LIMPET_OP_CALLOC},
	{"realloc_aligned", LIMPET_OP_REALLOC},
	{"realloc_aligned_at", LIMPET_OP_REALLOC},
	{"rezalloc_aligned", LIMPET_OP_REALLOC},
	{"rezalloc_aligned_at", LIMPET_OP_REALLOC},
	{"recalloc_aligned", LIMPET_OP_REALLOCARRAY},
	{"recalloc_aligned_at", LIMPET_OP_REALLOCARRAY},
	{"posix_memalign", LIMPET_OP_POSIX_MEMALIGN},
	{"memalign", LIMPET_OP_MEMALIGN},
	{"aligned_alloc", LIMPET_OP_MEMALIGN},
	{"valloc", LIMPET_OP_MALLOC},
	{"pvalloc", LIMPET_OP_MALLOC},
	{"new", LIMPET_OP_MALLOC},
	{"new_aligned", LIMPET_OP_MALLOC},
	{"new_nothrow", LIMPET_OP_MALLOC},
	{"new_aligned_nothrow", LIMPET_OP_MALLOC},
	{"new_n", LIMPET_OP_CALLOC},
	{"new_realloc", LIMPET_OP_REALLOC},
	{"new_reallocn", LIMPET_OP_REALLOCARRAY},
	{"heap_malloc", LIMPET_OP_MEMALIGN},
	{"heap_zalloc", LIMPET_OP_MEMALIGN},
	{"heap_malloc_small", LIMPET_OP_MEMALIGN},
	{"heap_malloc_aligned", LIMPET_OP_MEMALIGN},
	{"heap_zalloc_aligned", LIMPET_OP_MEMALIGN},
	{"usable_size", LIMPET_OP_NONE},
};

/* gperftools/tcmalloc.h */
static const struct word tcmalloc_words[] = {
	{"malloc", LIMPET_OP_MALLOC},
	{"malloc_skip_new_handler", LIMPET_OP_MALLOC},
	{"calloc", LIMPET_OP_CALLOC},
	{"realloc", LIMPET_OP_REALLOC},
	{"free", LIMPET_OP_FREE},
	{"cfree", LIMPET_OP_FREE},
	{"free_sized", LIMPET_OP_FREE},
	{"memalign", LIMPET_OP_MEMALIGN},
	{"posix_memalign", LIMPET_OP_POSIX_MEMALIGN},
	{"valloc", LIMPET_OP_MALLOC},
	{"pvalloc", LIMPET_OP_MALLOC},
	{"new", LIMPET_OP_MALLOC},
	{"new_nothrow", LIMPET_OP_MALLOC},
	{"newarray", LIMPET_OP_MALLOC},
	{"newarray_nothrow", LIMPET_OP_MALLOC},
	{"new_aligned", LIMPET_OP_MALLOC},
	{"new_aligned_nothrow", LIMPET_OP_MALLOC},
	{"newarray_aligned", LIMPET_OP_MALLOC},
	{"newarray_aligned_nothrow", LIMPET_OP_MALLOC},
	{"delete", LIMPET_OP_FREE},
	{"delete_sized", LIMPET_OP_FREE},
	{"delete_nothrow", LIMPET_OP_FREE},
	{"deletearray", LIMPET_OP_FREE},
	{"deletearray_sized", LIMPET_OP_FREE},
	{"deletearray_nothrow", LIMPET_OP_FREE},
	{"delete_aligned", LIMPET_OP_FREE},
	{"delete_sized_aligned", LIMPET_OP_FREE},
	{"delete_aligned_nothrow", LIMPET_OP_FREE},
	{"deletearray_aligned", LIMPET_OP_FREE},
	{"deletearray_sized_aligned", LIMPET_OP_FREE},
	{"deletearray_aligned_nothrow", LIMPET_OP_FREE},
	{"malloc_size", LIMPET_OP_NONE},
};

/* jemalloc's own API, where it stands beside a plain malloc; and what else is to be known of one.
 */
static const struct word bare_words[] = {
	{"mallocx", LIMPET_OP_MALLOC},
	{"rallocx", LIMPET_OP_REALLOC},
	{"dallocx", LIMPET_OP_FREE},
	{"sdallocx", LIMPET_OP_FREE},
	{"malloc_usable_size", LIMPET_OP_NONE},
	/* A thread that ends gives what it has cached of free blocks back by free(): glibc, where
	 * it is linked in and no slot stands between. */
	{"__malloc_arena_thread_freeres", LIMPET_OP_INSIDE},
};

static const struct {
	const char *prefix;
	enum limpet_entry_family family;
	const struct word *words;
	size_t count;
} prefixes[] = {
	{"_rjem_", LIMPET_ENTRY_RUST_JE, jemalloc_words, LIMPET_COUNT_OF(jemalloc_words)},
	{"je_", LIMPET_ENTRY_JEMALLOC, jemalloc_words, LIMPET_COUNT_OF(jemalloc_words)},
	{"mi_", LIMPET_ENTRY_MIMALLOC, mimalloc_words, LIMPET_COUNT_OF(mimalloc_words)},
	{"tc_", LIMPET_ENTRY_TCMALLOC, tcmalloc_words, LIMPET_COUNT_OF(tcmalloc_words)},
	{"", LIMPET_ENTRY_PLAIN, bare_words, LIMPET_COUNT_OF(bare_words)},
};

/* Its like in the family, by what it does. */
static uint32_t symbol_of(enum limpet_op op)
{
	for (uint32_t i = 0; i < LIMPET_FAMILY_COUNT; i++)
		if (limpet_family[i].op == op)
			return i;
	return 0;
}

static bool find_word(const char *name, size_t length, struct limpet_entry_name *ret)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(prefixes); i++) {
		size_t skip = strlen(prefixes[i].prefix);

		if (length <= skip || strncmp(name, prefixes[i].prefix, skip))
			continue;
		for (size_t k = 0; k < prefixes[i].count; k++) {
			const struct word *word = &prefixes[i].words[k];

			if (strlen(word->name) != length - skip ||
			    strncmp(name + skip, word->name, length - skip))
				continue;
			ret->family = prefixes[i].family;
			ret->op = word->op;
			ret->symbol = symbol_of(word->op);
			ret->only_exported = !skip;
			return true;
		}
	}
	return false;
}

bool limpet_entry_name_find(const char *name, struct limpet_entry_name *ret)
{
	/* What link-time optimization makes of a name that is no more seen from outside. */
	const char *suffix = strstr(name, ".lto_priv.");
	size_t length = suffix ? (size_t)(suffix - name) : strlen(name);
	int symbol = suffix ? -1 : limpet_family_find(name, length + 1);
	unsigned unwanted = LIMPET_FAMILY_MMAP | LIMPET_FAMILY_LOADER;

	if (symbol < 0)
		return find_word(name, length, ret);
	if (limpet_family[symbol].flags & unwanted)
		return false;
	ret->family = limpet_family[symbol].flags & LIMPET_FAMILY_CXX ? LIMPET_ENTRY_OPERATORS
								      : LIMPET_ENTRY_PLAIN;
	ret->op = limpet_family[symbol].op;
	ret->symbol = (uint32_t)symbol;
	ret->only_exported = true;
	return true;
}

bool limpet_entry_name_is_inside(const char *name)
{
	static const char *const inside[] = {"je_", "_rjem_", "mi_", "_mi_", "tc_", "_ZN8tcmalloc"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(inside); i++)
		if (!strncmp(name, inside[i], strlen(inside[i])))
			return true;
	return false;
}
