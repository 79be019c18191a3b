#include "injector/image/entry_names.h"

#include <string.h>

#include "common/err.h"
#include "common/family.h"

struct word {
	const char *name;
	enum limpet_op op;
	uint16_t skip; /* number of leading arguments to ignore */
};

/* jemalloc(3). xallocx is left out: a block that grows in place keeps its old size in the
 * accounting. */
static const struct word jemalloc_words[] = {
	{"malloc", LIMPET_OP_MALLOC, 0},
	{"calloc", LIMPET_OP_CALLOC, 0},
	{"realloc", LIMPET_OP_REALLOC, 0},
	{"reallocarray", LIMPET_OP_REALLOCARRAY, 0},
	{"free", LIMPET_OP_FREE, 0},
	{"posix_memalign", LIMPET_OP_POSIX_MEMALIGN, 0},
	{"aligned_alloc", LIMPET_OP_MEMALIGN, 0},
	{"memalign", LIMPET_OP_MEMALIGN, 0},
	{"valloc", LIMPET_OP_MALLOC, 0},
	{"pvalloc", LIMPET_OP_MALLOC, 0},
	{"mallocx", LIMPET_OP_MALLOC, 0},
	{"rallocx", LIMPET_OP_REALLOC, 0},
	{"dallocx", LIMPET_OP_FREE, 0},
	{"sdallocx", LIMPET_OP_FREE, 0},
	{"free_sized", LIMPET_OP_FREE, 0},
	{"free_aligned_sized", LIMPET_OP_FREE, 0},
	{"malloc_usable_size", LIMPET_OP_NONE, 0},
};

/* mimalloc.h. If the size is the first argument, a following alignment is ignored. Functions of a
 * heap have one more leading argument. */
static const struct word mimalloc_words[] = {
	{"malloc", LIMPET_OP_MALLOC, 0},
	{"zalloc", LIMPET_OP_MALLOC, 0},
	{"malloc_small", LIMPET_OP_MALLOC, 0},
	{"zalloc_small", LIMPET_OP_MALLOC, 0},
	{"calloc", LIMPET_OP_CALLOC, 0},
	{"mallocn", LIMPET_OP_CALLOC, 0},
	{"realloc", LIMPET_OP_REALLOC, 0},
	{"reallocf", LIMPET_OP_REALLOC, 0},
	{"rezalloc", LIMPET_OP_REALLOC, 0},
	{"expand", LIMPET_OP_REALLOC, 0},
	{"reallocn", LIMPET_OP_REALLOCARRAY, 0},
	{"reallocarray", LIMPET_OP_REALLOCARRAY, 0},
	{"recalloc", LIMPET_OP_REALLOCARRAY, 0},
	{"free", LIMPET_OP_FREE, 0},
	{"cfree", LIMPET_OP_FREE, 0},
	{"free_size", LIMPET_OP_FREE, 0},
	{"free_size_aligned", LIMPET_OP_FREE, 0},
	{"free_aligned", LIMPET_OP_FREE, 0},
	{"malloc_aligned", LIMPET_OP_MALLOC, 0},
	{"malloc_aligned_at", LIMPET_OP_MALLOC, 0},
	{"zalloc_aligned", LIMPET_OP_MALLOC, 0},
	{"zalloc_aligned_at", LIMPET_OP_MALLOC, 0},
	{"calloc_aligned", LIMPET_OP_CALLOC, 0},
	{"calloc_aligned_at", LIMPET_OP_CALLOC, 0},
	{"realloc_aligned", LIMPET_OP_REALLOC, 0},
	{"realloc_aligned_at", LIMPET_OP_REALLOC, 0},
	{"rezalloc_aligned", LIMPET_OP_REALLOC, 0},
	{"rezalloc_aligned_at", LIMPET_OP_REALLOC, 0},
	{"recalloc_aligned", LIMPET_OP_REALLOCARRAY, 0},
	{"recalloc_aligned_at", LIMPET_OP_REALLOCARRAY, 0},
	{"posix_memalign", LIMPET_OP_POSIX_MEMALIGN, 0},
	{"memalign", LIMPET_OP_MEMALIGN, 0},
	{"aligned_alloc", LIMPET_OP_MEMALIGN, 0},
	{"valloc", LIMPET_OP_MALLOC, 0},
	{"pvalloc", LIMPET_OP_MALLOC, 0},
	{"new", LIMPET_OP_MALLOC, 0},
	{"new_aligned", LIMPET_OP_MALLOC, 0},
	{"new_nothrow", LIMPET_OP_MALLOC, 0},
	{"new_aligned_nothrow", LIMPET_OP_MALLOC, 0},
	{"new_n", LIMPET_OP_CALLOC, 0},
	{"new_realloc", LIMPET_OP_REALLOC, 0},
	{"new_reallocn", LIMPET_OP_REALLOCARRAY, 0},
	{"heap_malloc", LIMPET_OP_MALLOC, 1},
	{"heap_zalloc", LIMPET_OP_MALLOC, 1},
	{"heap_malloc_small", LIMPET_OP_MALLOC, 1},
	{"heap_calloc", LIMPET_OP_CALLOC, 1},
	{"heap_mallocn", LIMPET_OP_CALLOC, 1},
	{"heap_realloc", LIMPET_OP_REALLOC, 1},
	{"heap_reallocf", LIMPET_OP_REALLOC, 1},
	{"heap_reallocn", LIMPET_OP_REALLOCARRAY, 1},
	{"heap_rezalloc", LIMPET_OP_REALLOC, 1},
	{"heap_recalloc", LIMPET_OP_REALLOCARRAY, 1},
	{"heap_malloc_aligned", LIMPET_OP_MALLOC, 1},
	{"heap_malloc_aligned_at", LIMPET_OP_MALLOC, 1},
	{"heap_zalloc_aligned", LIMPET_OP_MALLOC, 1},
	{"heap_zalloc_aligned_at", LIMPET_OP_MALLOC, 1},
	{"heap_calloc_aligned", LIMPET_OP_CALLOC, 1},
	{"heap_calloc_aligned_at", LIMPET_OP_CALLOC, 1},
	{"heap_realloc_aligned", LIMPET_OP_REALLOC, 1},
	{"heap_realloc_aligned_at", LIMPET_OP_REALLOC, 1},
	{"heap_rezalloc_aligned", LIMPET_OP_REALLOC, 1},
	{"heap_rezalloc_aligned_at", LIMPET_OP_REALLOC, 1},
	{"heap_recalloc_aligned", LIMPET_OP_REALLOCARRAY, 1},
	{"heap_recalloc_aligned_at", LIMPET_OP_REALLOCARRAY, 1},
	{"usable_size", LIMPET_OP_NONE, 0},
};

/* gperftools/tcmalloc.h */
static const struct word tcmalloc_words[] = {
	{"malloc", LIMPET_OP_MALLOC, 0},
	{"malloc_skip_new_handler", LIMPET_OP_MALLOC, 0},
	{"calloc", LIMPET_OP_CALLOC, 0},
	{"realloc", LIMPET_OP_REALLOC, 0},
	{"free", LIMPET_OP_FREE, 0},
	{"cfree", LIMPET_OP_FREE, 0},
	{"free_sized", LIMPET_OP_FREE, 0},
	{"memalign", LIMPET_OP_MEMALIGN, 0},
	{"posix_memalign", LIMPET_OP_POSIX_MEMALIGN, 0},
	{"valloc", LIMPET_OP_MALLOC, 0},
	{"pvalloc", LIMPET_OP_MALLOC, 0},
	{"new", LIMPET_OP_MALLOC, 0},
	{"new_nothrow", LIMPET_OP_MALLOC, 0},
	{"newarray", LIMPET_OP_MALLOC, 0},
	{"newarray_nothrow", LIMPET_OP_MALLOC, 0},
	{"new_aligned", LIMPET_OP_MALLOC, 0},
	{"new_aligned_nothrow", LIMPET_OP_MALLOC, 0},
	{"newarray_aligned", LIMPET_OP_MALLOC, 0},
	{"newarray_aligned_nothrow", LIMPET_OP_MALLOC, 0},
	{"delete", LIMPET_OP_FREE, 0},
	{"delete_sized", LIMPET_OP_FREE, 0},
	{"delete_nothrow", LIMPET_OP_FREE, 0},
	{"deletearray", LIMPET_OP_FREE, 0},
	{"deletearray_sized", LIMPET_OP_FREE, 0},
	{"deletearray_nothrow", LIMPET_OP_FREE, 0},
	{"delete_aligned", LIMPET_OP_FREE, 0},
	{"delete_sized_aligned", LIMPET_OP_FREE, 0},
	{"delete_aligned_nothrow", LIMPET_OP_FREE, 0},
	{"deletearray_aligned", LIMPET_OP_FREE, 0},
	{"deletearray_sized_aligned", LIMPET_OP_FREE, 0},
	{"deletearray_aligned_nothrow", LIMPET_OP_FREE, 0},
	{"malloc_size", LIMPET_OP_NONE, 0},
};

/* jemalloc's own API beside a plain malloc; and other functions that matter in such a program. */
static const struct word bare_words[] = {
	{"mallocx", LIMPET_OP_MALLOC, 0},
	{"rallocx", LIMPET_OP_REALLOC, 0},
	{"dallocx", LIMPET_OP_FREE, 0},
	{"sdallocx", LIMPET_OP_FREE, 0},
	{"malloc_usable_size", LIMPET_OP_NONE, 0},
	/* A thread that ends releases its cached free blocks by free(): glibc, if it is linked in
	 * and no slot is between. */
	{"__malloc_arena_thread_freeres", LIMPET_OP_INSIDE, 0},
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

static void take_word(const struct word *word, enum limpet_entry_family family,
		      struct limpet_entry_name *ret)
{
	*ret = (struct limpet_entry_name){
		.family = family,
		.op = word->op,
		.hook_flags = LIMPET_HOOK_SKIP_FLAG(word->skip),
		.symbol = limpet_family_first(word->op), /* a similar function of the family */
	};
}

static bool is_word(const struct word *word, const char *name, size_t length)
{
	return strlen(word->name) == length && !strncmp(word->name, name, length);
}

static bool find_word(const char *name, size_t length, struct limpet_entry_name *ret)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(prefixes); i++) {
		size_t skip = strlen(prefixes[i].prefix);

		if (length <= skip || strncmp(name, prefixes[i].prefix, skip))
			continue;
		for (size_t k = 0; k < prefixes[i].count; k++) {
			if (!is_word(&prefixes[i].words[k], name + skip, length - skip))
				continue;
			take_word(&prefixes[i].words[k], prefixes[i].family, ret);
			ret->only_exported = !skip;
			return true;
		}
	}
	return false;
}

/* include/limpet.h. The function returns the block; its second argument is the size. */
static const char pool_prefix[] = "limpet_pool_";
static const struct word pool_words[] = {
	{"_allocated", LIMPET_OP_MALLOC, 1},
	{"_freed", LIMPET_OP_FREE, 0},
	{"_chunk", LIMPET_OP_INSIDE, 0},
	{"_chunk_back", LIMPET_OP_INSIDE, 0},
};

static const struct word *pool_word(const char *name, size_t *ret_length)
{
	size_t length = strlen(name), skip = sizeof(pool_prefix) - 1;

	if (strncmp(name, pool_prefix, skip) != 0)
		return NULL;
	for (size_t i = 0; i < LIMPET_COUNT_OF(pool_words); i++) {
		size_t end = strlen(pool_words[i].name);

		if (length <= skip + end || strcmp(name + length - end, pool_words[i].name) != 0)
			continue;
		*ret_length = length - skip - end;
		return &pool_words[i];
	}
	return NULL;
}

const char *limpet_entry_name_pool(const char *name, size_t *ret_length)
{
	return pool_word(name, ret_length) ? name + sizeof(pool_prefix) - 1 : NULL;
}

bool limpet_entry_name_find(const char *name, struct limpet_entry_name *ret)
{
	/* Link-time optimization renames a function that is no longer visible from outside. */
	const char *suffix = strstr(name, ".lto_priv.");
	size_t length = suffix ? (size_t)(suffix - name) : strlen(name);
	int symbol = suffix ? -1 : limpet_family_find(name, length + 1);
	const struct word *pool;
	size_t pool_length;
	unsigned unwanted = LIMPET_FAMILY_MMAP | LIMPET_FAMILY_LOADER | LIMPET_FAMILY_FINDER;

	pool = pool_word(name, &pool_length);
	if (pool) {
		take_word(pool, LIMPET_ENTRY_POOL, ret);
		return true;
	}
	if (symbol < 0)
		return find_word(name, length, ret);
	if (limpet_family[symbol].flags & unwanted)
		return false;
	*ret = (struct limpet_entry_name){
		.family = limpet_family[symbol].flags & LIMPET_FAMILY_CXX ? LIMPET_ENTRY_OPERATORS
									  : LIMPET_ENTRY_PLAIN,
		.op = limpet_family[symbol].op,
		.symbol = (uint32_t)symbol,
		.only_exported = true,
	};
	return true;
}

/* How the names of functions begin that only the allocator has. */
bool limpet_entry_name_proves(const char *name, enum limpet_entry_family *ret)
{
	static const struct {
		const char *prefix;
		enum limpet_entry_family family;
	} proofs[] = {
		{"je_arena_", LIMPET_ENTRY_JEMALLOC},
		{"je_tcache_", LIMPET_ENTRY_JEMALLOC},
		{"je_mallctl", LIMPET_ENTRY_JEMALLOC},
		{"_rjem_", LIMPET_ENTRY_RUST_JE},
		{"_mi_malloc_generic", LIMPET_ENTRY_MIMALLOC},
		{"_mi_page_", LIMPET_ENTRY_MIMALLOC},
		{"_mi_heap_", LIMPET_ENTRY_MIMALLOC},
		{"mi_version", LIMPET_ENTRY_MIMALLOC},
		{"_ZN8tcmalloc", LIMPET_ENTRY_TCMALLOC},
		{"tc_version", LIMPET_ENTRY_TCMALLOC},
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(proofs); i++)
		if (!strncmp(name, proofs[i].prefix, strlen(proofs[i].prefix))) {
			*ret = proofs[i].family;
			return true;
		}
	return false;
}

const char *limpet_entry_name_allocator(const char *name)
{
	static const struct {
		const char *prefix, *allocator;
	} list[] = {
		{"je_", "jemalloc"},  {"_rjem_", "jemalloc"}, {"mi_", "mimalloc"},
		{"_mi_", "mimalloc"}, {"tc_", "tcmalloc"},    {"_ZN8tcmalloc", "tcmalloc"},
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++)
		if (!strncmp(name, list[i].prefix, strlen(list[i].prefix)))
			return list[i].allocator;
	return NULL;
}

bool limpet_entry_name_is_inside(const char *name)
{
	return limpet_entry_name_allocator(name);
}
