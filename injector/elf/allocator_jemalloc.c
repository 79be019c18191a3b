#include "injector/elf/allocators.h"

/* jemalloc(3). */
static const struct limpet_allocator_word words[] = {
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

static const struct limpet_allocator_prefix prefixes[] = {
	LIMPET_ALLOCATOR_PREFIX("_rjem_", LIMPET_ENTRY_RUST_JE, words),
	LIMPET_ALLOCATOR_PREFIX("je_", LIMPET_ENTRY_JEMALLOC, words),
	{0},
};

static const struct limpet_allocator_proof proofs[] = {
	{"je_arena_", LIMPET_ENTRY_JEMALLOC},
	{"je_tcache_", LIMPET_ENTRY_JEMALLOC},
	{"je_mallctl", LIMPET_ENTRY_JEMALLOC},
	{"_rjem_", LIMPET_ENTRY_RUST_JE},
	{0},
};

static const struct limpet_allocator_text texts[] = {
	{false, 0, "<je", ">: Malformed conf string\n"},
	{false, 1, "<je", ">: Unsupported system page size\n"},
	{false, 2, "<je", ">: Reducing narenas to limit (%d)\n"},
	{false, 3, "<je", ">: Error in pthread_atfork()\n"},
	{false, 4, "<je", ">: Error re-initializing mutex in child\n"},
	{false, 5, "<je", ">: Error in munmap(): %s\n"},
	{false, 6, "<je", ">: Conf string ends with key\n"},
	{0},
};

const struct limpet_allocator limpet_allocator_jemalloc = {
	.name = "jemalloc",
	.library = "libjemalloc",
	.markers = (const char *const[]){"je_malloc", "je_mallocx", "je_arena_malloc_hard",
					 "_rjem_malloc", "_rjem_mallocx",
					 "_rjem_je_arena_malloc_hard", NULL},
	.inside = (const char *const[]){"je_", "_rjem_", NULL},
	.prefixes = prefixes,
	.proofs = proofs,
	.texts = texts,
};
