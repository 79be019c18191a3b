#include "injector/elf/allocators.h"

/* Name, library, markers. */
#define ALLOCATOR(allocator, shared, is_more, ...)                                                 \
	&(const struct limpet_allocator)                                                           \
	{                                                                                          \
		.name = allocator, .library = shared,                                              \
		.markers = (const char *const[]){__VA_ARGS__, NULL}, .is_more_than_names = is_more \
	}
#define KNOWN(allocator, shared, ...) ALLOCATOR(allocator, shared, false, __VA_ARGS__)
#define MORE_THAN_NAMES(allocator, shared, ...) ALLOCATOR(allocator, shared, true, __VA_ARGS__)

const struct limpet_allocator *const limpet_allocators[] = {
	&limpet_allocator_jemalloc,
	&limpet_allocator_mimalloc,
	&limpet_allocator_tcmalloc,
	KNOWN("the Go runtime", NULL, "runtime.mallocgc"),
	KNOWN("Nim's allocator", NULL, "rawAlloc__*"),
	KNOWN("Nim's regions", NULL, "tlRegion__system_*"),
	KNOWN("snmalloc", "libsnmallocshim", "sn_malloc", "_ZN8snmalloc*"),
	KNOWN("rpmalloc", "librpmalloc", "rpmalloc"),
	KNOWN("Scudo", "libscudo", "__scudo_*"),
	KNOWN("Hoard", "libhoard", NULL),
	KNOWN("libumem", "libumem", NULL),
	KNOWN("nedmalloc", "libnedmalloc", NULL),
	KNOWN("ptmalloc", "libptmalloc", NULL),
	MORE_THAN_NAMES("PartitionAlloc", NULL, "_ZN14partition_alloc*"),
	MORE_THAN_NAMES("the Boehm collector", NULL, "GC_malloc"),
	MORE_THAN_NAMES("AddressSanitizer", "libasan", "__asan_init"),
	MORE_THAN_NAMES("ThreadSanitizer", "libtsan", "__tsan_init"),
	MORE_THAN_NAMES("MemorySanitizer", NULL, "__msan_init"),
	MORE_THAN_NAMES("LeakSanitizer", NULL, "__lsan_init"),
	NULL,
};
_Static_assert(sizeof(limpet_allocators) / sizeof(*limpet_allocators) <= LIMPET_ALLOCATORS_MOST,
	       "raise LIMPET_ALLOCATORS_MOST");
