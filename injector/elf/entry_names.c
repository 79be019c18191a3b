#include "injector/elf/entry_names.h"

#include <string.h>

#include "common/err.h"
#include "common/family.h"

struct word {
	const char *name;
	enum limpet_op op;
	uint16_t skip;     /* number of leading arguments to ignore */
	bool also_of_heap; /* there is one with "heap_" before the name, and one more argument */
};

/* jemalloc(3). */
static const struct word jemalloc_words[] = {
	{"malloc", LIMPET_OP_MALLOC, 0, false},
	{"calloc", LIMPET_OP_CALLOC, 0, false},
	{"realloc", LIMPET_OP_REALLOC, 0, false},
	{"reallocarray", LIMPET_OP_REALLOCARRAY, 0, false},
	{"free", LIMPET_OP_FREE, 0, false},
	{"posix_memalign", LIMPET_OP_POSIX_MEMALIGN, 0, false},
	{"aligned_alloc", LIMPET_OP_MEMALIGN, 0, false},
	{"memalign", LIMPET_OP_MEMALIGN, 0, false},
	{"valloc", LIMPET_OP_MALLOC, 0, false},
	{"pvalloc", LIMPET_OP_MALLOC, 0, false},
	{"mallocx", LIMPET_OP_MALLOC, 0, false},
	{"rallocx", LIMPET_OP_REALLOC, 0, false},
	{"xallocx", LIMPET_OP_RESIZE, 0, false},
	{"dallocx", LIMPET_OP_FREE, 0, false},
	{"sdallocx", LIMPET_OP_FREE, 0, false},
	{"free_sized", LIMPET_OP_FREE, 0, false},
	{"free_aligned_sized", LIMPET_OP_FREE, 0, false},
	{"mallctl", LIMPET_OP_CONTROL, 0, false},
	{"mallctlbymib", LIMPET_OP_CONTROL_BY_MIB, 0, false},
	{"malloc_usable_size", LIMPET_OP_NONE, 0, false},
};

/* mimalloc.h, versions 1 to 3. If the size is the first argument, a following alignment, or where
 * the usable size is to be stored, is ignored. */
static const struct word mimalloc_words[] = {
	{"malloc", LIMPET_OP_MALLOC, 0, true},
	{"zalloc", LIMPET_OP_MALLOC, 0, true},
	{"malloc_small", LIMPET_OP_MALLOC, 0, true},
	{"zalloc_small", LIMPET_OP_MALLOC, 0, true},
	{"calloc", LIMPET_OP_CALLOC, 0, true},
	{"mallocn", LIMPET_OP_CALLOC, 0, true},
	{"realloc", LIMPET_OP_REALLOC, 0, true},
	{"reallocf", LIMPET_OP_REALLOCF, 0, true},
	{"rezalloc", LIMPET_OP_REALLOC, 0, true},
	{"expand", LIMPET_OP_REALLOC, 0, false},
	{"_expand", LIMPET_OP_REALLOC, 0, false},
	{"reallocn", LIMPET_OP_REALLOCARRAY, 0, true},
	{"reallocarray", LIMPET_OP_REALLOCARRAY, 0, false},
	{"recalloc", LIMPET_OP_REALLOCARRAY, 0, true},
	{"reallocarr", LIMPET_OP_UNFOLLOWED, 0, false},
	{"free", LIMPET_OP_FREE, 0, false},
	{"free_small", LIMPET_OP_FREE, 0, false},
	{"cfree", LIMPET_OP_FREE, 0, false},
	{"free_size", LIMPET_OP_FREE, 0, false},
	{"free_size_aligned", LIMPET_OP_FREE, 0, false},
	{"free_aligned", LIMPET_OP_FREE, 0, false},
	{"malloc_aligned", LIMPET_OP_MALLOC, 0, true},
	{"malloc_aligned_at", LIMPET_OP_MALLOC, 0, true},
	{"zalloc_aligned", LIMPET_OP_MALLOC, 0, true},
	{"zalloc_aligned_at", LIMPET_OP_MALLOC, 0, true},
	{"calloc_aligned", LIMPET_OP_CALLOC, 0, true},
	{"calloc_aligned_at", LIMPET_OP_CALLOC, 0, true},
	{"realloc_aligned", LIMPET_OP_REALLOC, 0, true},
	{"realloc_aligned_at", LIMPET_OP_REALLOC, 0, true},
	{"rezalloc_aligned", LIMPET_OP_REALLOC, 0, true},
	{"rezalloc_aligned_at", LIMPET_OP_REALLOC, 0, true},
	{"recalloc_aligned", LIMPET_OP_REALLOCARRAY, 0, true},
	{"recalloc_aligned_at", LIMPET_OP_REALLOCARRAY, 0, true},
	{"aligned_recalloc", LIMPET_OP_REALLOCARRAY, 0, false},
	{"aligned_offset_recalloc", LIMPET_OP_REALLOCARRAY, 0, false},
	{"posix_memalign", LIMPET_OP_POSIX_MEMALIGN, 0, false},
	{"memalign", LIMPET_OP_MEMALIGN, 0, false},
	{"aligned_alloc", LIMPET_OP_MEMALIGN, 0, false},
	{"valloc", LIMPET_OP_MALLOC, 0, false},
	{"pvalloc", LIMPET_OP_MALLOC, 0, false},
	{"strdup", LIMPET_OP_STRING, 0, true},
	{"strndup", LIMPET_OP_STRING, 0, true},
	{"mbsdup", LIMPET_OP_STRING, 0, false},
	{"realpath", LIMPET_OP_REALPATH, 0, true},
	{"wcsdup", LIMPET_OP_UNFOLLOWED, 0, false},
	{"dupenv_s", LIMPET_OP_UNFOLLOWED, 0, false},
	{"wdupenv_s", LIMPET_OP_UNFOLLOWED, 0, false},
	{"new", LIMPET_OP_MALLOC, 0, false},
	{"new_aligned", LIMPET_OP_MALLOC, 0, false},
	{"new_nothrow", LIMPET_OP_MALLOC, 0, false},
	{"new_aligned_nothrow", LIMPET_OP_MALLOC, 0, false},
	{"new_n", LIMPET_OP_CALLOC, 0, false},
	{"new_realloc", LIMPET_OP_REALLOC, 0, false},
	{"new_reallocn", LIMPET_OP_REALLOCARRAY, 0, false},
	{"umalloc", LIMPET_OP_MALLOC, 0, false},
	{"ucalloc", LIMPET_OP_CALLOC, 0, false},
	{"urealloc", LIMPET_OP_REALLOC, 0, false},
	{"ufree", LIMPET_OP_FREE, 0, false},
	{"umalloc_aligned", LIMPET_OP_MALLOC, 0, false},
	{"uzalloc_aligned", LIMPET_OP_MALLOC, 0, false},
	{"umalloc_small", LIMPET_OP_MALLOC, 0, false},
	{"uzalloc_small", LIMPET_OP_MALLOC, 0, false},
	{"heap_alloc_new", LIMPET_OP_MALLOC, 1, false},
	{"heap_alloc_new_n", LIMPET_OP_CALLOC, 1, false},
	{"heap_destroy", LIMPET_OP_DESTROY, 0, false},
	{"subproc_destroy", LIMPET_OP_DESTROY, 0, false},
	{"usable_size", LIMPET_OP_NONE, 0, false},
};

/* gperftools/tcmalloc.h */
static const struct word tcmalloc_words[] = {
	{"malloc", LIMPET_OP_MALLOC, 0, false},
	{"malloc_skip_new_handler", LIMPET_OP_MALLOC, 0, false},
	{"calloc", LIMPET_OP_CALLOC, 0, false},
	{"realloc", LIMPET_OP_REALLOC, 0, false},
	{"free", LIMPET_OP_FREE, 0, false},
	{"cfree", LIMPET_OP_FREE, 0, false},
	{"free_sized", LIMPET_OP_FREE, 0, false},
	{"memalign", LIMPET_OP_MEMALIGN, 0, false},
	{"posix_memalign", LIMPET_OP_POSIX_MEMALIGN, 0, false},
	{"valloc", LIMPET_OP_MALLOC, 0, false},
	{"pvalloc", LIMPET_OP_MALLOC, 0, false},
	{"new", LIMPET_OP_MALLOC, 0, false},
	{"new_nothrow", LIMPET_OP_MALLOC, 0, false},
	{"newarray", LIMPET_OP_MALLOC, 0, false},
	{"newarray_nothrow", LIMPET_OP_MALLOC, 0, false},
	{"new_aligned", LIMPET_OP_MALLOC, 0, false},
	{"new_aligned_nothrow", LIMPET_OP_MALLOC, 0, false},
	{"newarray_aligned", LIMPET_OP_MALLOC, 0, false},
	{"newarray_aligned_nothrow", LIMPET_OP_MALLOC, 0, false},
	{"delete", LIMPET_OP_FREE, 0, false},
	{"delete_sized", LIMPET_OP_FREE, 0, false},
	{"delete_nothrow", LIMPET_OP_FREE, 0, false},
	{"deletearray", LIMPET_OP_FREE, 0, false},
	{"deletearray_sized", LIMPET_OP_FREE, 0, false},
	{"deletearray_nothrow", LIMPET_OP_FREE, 0, false},
	{"delete_aligned", LIMPET_OP_FREE, 0, false},
	{"delete_sized_aligned", LIMPET_OP_FREE, 0, false},
	{"delete_aligned_nothrow", LIMPET_OP_FREE, 0, false},
	{"deletearray_aligned", LIMPET_OP_FREE, 0, false},
	{"deletearray_sized_aligned", LIMPET_OP_FREE, 0, false},
	{"deletearray_aligned_nothrow", LIMPET_OP_FREE, 0, false},
	{"malloc_size", LIMPET_OP_NONE, 0, false},
};

/* tcmalloc.h of Google's tcmalloc. */
static const struct word google_words[] = {
	{"Malloc", LIMPET_OP_MALLOC, 0, false},
	{"Calloc", LIMPET_OP_CALLOC, 0, false},
	{"Realloc", LIMPET_OP_REALLOC, 0, false},
	{"ReallocArray", LIMPET_OP_REALLOCARRAY, 0, false},
	{"Free", LIMPET_OP_FREE, 0, false},
	{"FreeSized", LIMPET_OP_FREE, 0, false},
	{"FreeAlignedSized", LIMPET_OP_FREE, 0, false},
	{"Cfree", LIMPET_OP_FREE, 0, false},
	{"Sdallocx", LIMPET_OP_FREE, 0, false},
	{"Memalign", LIMPET_OP_MEMALIGN, 0, false},
	{"AlignedAlloc", LIMPET_OP_MEMALIGN, 0, false},
	{"PosixMemalign", LIMPET_OP_POSIX_MEMALIGN, 0, false},
	{"Valloc", LIMPET_OP_MALLOC, 0, false},
	{"Pvalloc", LIMPET_OP_MALLOC, 0, false},
	{"AllocAtLeast", LIMPET_OP_MALLOC, 0, false},
	{"AlignedAllocAtLeast", LIMPET_OP_MEMALIGN, 0, false},
	{"New", LIMPET_OP_MALLOC, 0, false},
	{"NewAligned", LIMPET_OP_MALLOC, 0, false},
	{"NewNothrow", LIMPET_OP_MALLOC, 0, false},
	{"NewAlignedNothrow", LIMPET_OP_MALLOC, 0, false},
	{"NewHotCold", LIMPET_OP_MALLOC, 0, false},
	{"NewAlignedHotCold", LIMPET_OP_MALLOC, 0, false},
	{"NewHotColdNothrow", LIMPET_OP_MALLOC, 0, false},
	{"NewAlignedHotColdNothrow", LIMPET_OP_MALLOC, 0, false},
	{"NewArray", LIMPET_OP_MALLOC, 0, false},
	{"NewArrayAligned", LIMPET_OP_MALLOC, 0, false},
	{"NewArrayNothrow", LIMPET_OP_MALLOC, 0, false},
	{"NewArrayAlignedNothrow", LIMPET_OP_MALLOC, 0, false},
	{"NewArrayHotCold", LIMPET_OP_MALLOC, 0, false},
	{"NewArrayAlignedHotCold", LIMPET_OP_MALLOC, 0, false},
	{"NewArrayHotColdNothrow", LIMPET_OP_MALLOC, 0, false},
	{"NewArrayAlignedHotColdNothrow", LIMPET_OP_MALLOC, 0, false},
	{"SizeReturningNew", LIMPET_OP_MALLOC, 0, false},
	{"SizeReturningNewAligned", LIMPET_OP_MALLOC, 0, false},
	{"Delete", LIMPET_OP_FREE, 0, false},
	{"DeleteAligned", LIMPET_OP_FREE, 0, false},
	{"DeleteSized", LIMPET_OP_FREE, 0, false},
	{"DeleteSizedAligned", LIMPET_OP_FREE, 0, false},
	{"DeleteNothrow", LIMPET_OP_FREE, 0, false},
	{"DeleteAlignedNothrow", LIMPET_OP_FREE, 0, false},
	{"DeleteArray", LIMPET_OP_FREE, 0, false},
	{"DeleteArrayAligned", LIMPET_OP_FREE, 0, false},
	{"DeleteArraySized", LIMPET_OP_FREE, 0, false},
	{"DeleteArraySizedAligned", LIMPET_OP_FREE, 0, false},
	{"DeleteArrayNothrow", LIMPET_OP_FREE, 0, false},
	{"DeleteArrayAlignedNothrow", LIMPET_OP_FREE, 0, false},
	{"MallocSize", LIMPET_OP_NONE, 0, false},
};

/* What has no prefix: jemalloc's own API beside a plain malloc, that of Google's tcmalloc; and
 * other functions that matter in such a program. */
static const struct word bare_words[] = {
	{"mallocx", LIMPET_OP_MALLOC, 0, false},
	{"rallocx", LIMPET_OP_REALLOC, 0, false},
	{"dallocx", LIMPET_OP_FREE, 0, false},
	{"sdallocx", LIMPET_OP_FREE, 0, false},
	{"xallocx", LIMPET_OP_RESIZE, 0, false},
	/* Google's tcmalloc. The second result of these four is the usable size. */
	{"__size_returning_new", LIMPET_OP_MALLOC, 0, false},
	{"__size_returning_new_aligned", LIMPET_OP_MALLOC, 0, false},
	{"__size_returning_new_hot_cold", LIMPET_OP_MALLOC, 0, false},
	{"__size_returning_new_aligned_hot_cold", LIMPET_OP_MALLOC, 0, false},
	{"_Znwm12__hot_cold_t", LIMPET_OP_MALLOC, 0, false},
	{"_ZnwmRKSt9nothrow_t12__hot_cold_t", LIMPET_OP_MALLOC, 0, false},
	{"_ZnwmSt11align_val_t12__hot_cold_t", LIMPET_OP_MALLOC, 0, false},
	{"_ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t", LIMPET_OP_MALLOC, 0, false},
	{"_Znam12__hot_cold_t", LIMPET_OP_MALLOC, 0, false},
	{"_ZnamRKSt9nothrow_t12__hot_cold_t", LIMPET_OP_MALLOC, 0, false},
	{"_ZnamSt11align_val_t12__hot_cold_t", LIMPET_OP_MALLOC, 0, false},
	{"_ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t", LIMPET_OP_MALLOC, 0, false},
	{"malloc_usable_size", LIMPET_OP_NONE, 0, false},
	/* A thread that ends releases its cached free blocks by free(): glibc, if it is linked in
	 * and no slot is between. */
	{"__malloc_arena_thread_freeres", LIMPET_OP_INSIDE, 0, false},
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
	{"TCMallocInternal", LIMPET_ENTRY_TCMALLOC, google_words, LIMPET_COUNT_OF(google_words)},
	{"", LIMPET_ENTRY_PLAIN, bare_words, LIMPET_COUNT_OF(bare_words)},
};

static void set_word(const struct word *word, enum limpet_entry_family family, unsigned heaps,
		     struct limpet_entry_name *ret)
{
	*ret = (struct limpet_entry_name){
		.family = family,
		.op = word->op,
		.hook_flags = LIMPET_HOOK_SKIP_FLAG(word->skip + heaps),
		.symbol = limpet_family_first(word->op), /* a similar function of the family */
	};
}

static bool is_word(const struct word *word, const char *name, size_t length)
{
	return strlen(word->name) == length && !strncmp(word->name, name, length);
}

/* mimalloc's heap_malloc; theap_malloc since version 3.2. */
static bool is_word_of_heap(const struct word *word, const char *name, size_t length)
{
	static const char *const heaps[] = {"heap_", "theap_"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(heaps) && word->also_of_heap; i++) {
		size_t skip = strlen(heaps[i]);

		if (length > skip && !strncmp(name, heaps[i], skip) &&
		    is_word(word, name + skip, length - skip))
			return true;
	}
	return false;
}

static bool find_word(const char *name, size_t length, struct limpet_entry_name *ret)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(prefixes); i++) {
		size_t skip = strlen(prefixes[i].prefix);

		if (length <= skip || strncmp(name, prefixes[i].prefix, skip))
			continue;
		for (size_t k = 0; k < prefixes[i].count; k++) {
			const struct word *word = &prefixes[i].words[k];
			const bool of_heap = is_word_of_heap(word, name + skip, length - skip);

			if (!of_heap && !is_word(word, name + skip, length - skip))
				continue;
			set_word(word, prefixes[i].family, of_heap, ret);
			ret->only_exported = !skip;
			return true;
		}
	}
	return false;
}

/* agent/include/limpet.h. The function returns the block; its second argument is the size. */
static const char pool_prefix[] = "limpet_pool_";
static const struct word pool_words[] = {
	{"_allocated", LIMPET_OP_MALLOC, 1, false},
	{"_freed", LIMPET_OP_FREE, 0, false},
	{"_chunk", LIMPET_OP_INSIDE, 0, false},
	{"_chunk_back", LIMPET_OP_INSIDE, 0, false},
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

/* Google's tcmalloc has a copy of each function for each class of types (-fsanitize=alloc-token).
 */
static const char *without_token(const char *name)
{
	static const char prefix[] = "__alloc_token_";
	const char *at = name + sizeof(prefix) - 1;

	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || *at < '0' || *at > '9')
		return name;
	at += strspn(at, "0123456789");
	return *at == '_' ? at + 1 : name;
}

/* glibc's other names of its functions. Where they are linked in, they are the same code; musl's
 * are of functions that only it calls. */
static bool is_of_libc(const char *name)
{
	return !strncmp(name, "__libc_", 7) || !strcmp(name, "__posix_memalign");
}

bool limpet_entry_name_find(const char *full_name, struct limpet_entry_name *ret)
{
	const char *name = without_token(full_name);
	/* Link-time optimization renames a function that is no longer visible from outside. */
	const char *suffix = strstr(name, ".lto_priv.");
	size_t length = suffix ? (size_t)(suffix - name) : strlen(name);
	int symbol = suffix ? -1 : limpet_family_find(name, length + 1);
	const struct word *pool;
	size_t pool_length;
	unsigned unwanted = LIMPET_FAMILY_MMAP | LIMPET_FAMILY_LOADER | LIMPET_FAMILY_FINDER;

	pool = pool_word(name, &pool_length);
	if (pool) {
		set_word(pool, LIMPET_ENTRY_POOL, 0, ret);
		return true;
	}
	if (symbol < 0)
		return find_word(name, length, ret);
	if (limpet_family[symbol].flags & unwanted || is_of_libc(name))
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
		{"je_", "jemalloc"},
		{"_rjem_", "jemalloc"},
		{"mi_", "mimalloc"},
		{"_mi_", "mimalloc"},
		{"tc_", "tcmalloc"},
		{"_ZN8tcmalloc", "tcmalloc"},
		{"TCMallocInternal", "tcmalloc"},
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++)
		if (!strncmp(name, list[i].prefix, strlen(list[i].prefix)))
			return list[i].allocator;
	return NULL;
}

/* mimalloc's library. */
bool limpet_entry_name_is_forwarded(const char *name)
{
	static const char *const list[] = {"vfree", "reallocf", "reallocarr", "_aligned_malloc"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++)
		if (!strcmp(name, list[i]))
			return true;
	return false;
}

bool limpet_entry_name_is_inside(const char *name)
{
	return limpet_entry_name_allocator(name);
}
