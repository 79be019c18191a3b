#include "injector/elf/entry_names.h"

#include <string.h>

#include "common/begins.h"
#include "common/err.h"
#include "common/family.h"

/* What has no prefix: jemalloc's own API beside a plain malloc, that of Google's tcmalloc; and
 * other functions that matter in such a program. */
static const struct limpet_allocator_word bare_words[] = {
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

static const struct limpet_allocator_prefix bare[] = {
	LIMPET_ALLOCATOR_PREFIX("", LIMPET_ENTRY_PLAIN, bare_words),
	{0},
};

static void set_word(const struct limpet_allocator_word *word, enum limpet_entry_family family,
		     unsigned heaps, struct limpet_entry_name *ret)
{
	*ret = (struct limpet_entry_name){
		.family = family,
		.op = word->op,
		.hook_flags = LIMPET_HOOK_SKIP_FLAG(word->skip + heaps),
		.symbol = limpet_family_first(word->op), /* a similar function of the family */
	};
}

static bool is_word(const struct limpet_allocator_word *word, const char *name, size_t length)
{
	return strlen(word->name) == length && !strncmp(word->name, name, length);
}

/* mimalloc's heap_malloc; theap_malloc since version 3.2. */
static bool is_word_of_heap(const struct limpet_allocator_word *word, const char *name,
			    size_t length)
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

static bool find_in(const struct limpet_allocator_prefix *prefix, const char *name, size_t length,
		    struct limpet_entry_name *ret)
{
	const size_t skip = strlen(prefix->prefix);

	if (length <= skip || strncmp(name, prefix->prefix, skip) != 0)
		return false;
	for (size_t i = 0; i < prefix->count; i++) {
		const struct limpet_allocator_word *word = &prefix->words[i];
		const bool of_heap = is_word_of_heap(word, name + skip, length - skip);

		if (!of_heap && !is_word(word, name + skip, length - skip))
			continue;
		set_word(word, prefix->family, of_heap, ret);
		ret->only_exported = !skip;
		return true;
	}
	return false;
}

static bool find_word(const char *name, size_t length, struct limpet_entry_name *ret)
{
	for (size_t i = 0; limpet_allocators[i]; i++)
		for (const struct limpet_allocator_prefix *prefix = limpet_allocators[i]->prefixes;
		     prefix && prefix->prefix; prefix++)
			if (find_in(prefix, name, length, ret))
				return true;
	return find_in(bare, name, length, ret);
}

/* agent/include/limpet.h. The function returns the block; its second argument is the size. */
static const char pool_prefix[] = "limpet_pool_";
static const struct limpet_allocator_word pool_words[] = {
	{"_allocated", LIMPET_OP_MALLOC, 1, false},
	{"_freed", LIMPET_OP_FREE, 0, false},
	{"_chunk", LIMPET_OP_INSIDE, 0, false},
	{"_chunk_back", LIMPET_OP_INSIDE, 0, false},
};

static const struct limpet_allocator_word *pool_word(const char *name, size_t *ret_length)
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
	const struct limpet_allocator_word *pool;
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

bool limpet_entry_name_proves(const char *name, enum limpet_entry_family *ret)
{
	for (size_t i = 0; limpet_allocators[i]; i++)
		for (const struct limpet_allocator_proof *proof = limpet_allocators[i]->proofs;
		     proof && proof->prefix; proof++)
			if (limpet_begins(name, proof->prefix)) {
				*ret = proof->family;
				return true;
			}
	return false;
}

const char *limpet_entry_name_allocator(const char *name)
{
	for (size_t i = 0; limpet_allocators[i]; i++)
		for (const char *const *prefix = limpet_allocators[i]->inside; prefix && *prefix;
		     prefix++)
			if (limpet_begins(name, *prefix))
				return limpet_allocators[i]->name;
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
