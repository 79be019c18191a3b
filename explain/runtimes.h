/* Recognizes the heaps of languages' runtimes in memory of no known owner, by the structures that
 * they keep in it. What does not match in every checked respect stays unknown. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_H
#define LIMPET_EXPLAIN_RUNTIMES_H

#include "explain/go.h"
#include "explain/gperftools.h"
#include "explain/jemalloc.h"
#include "explain/mimalloc.h"
#include "explain/tcmalloc.h"

#define LIMPET_KIND_V8 "v8-heap"
#define LIMPET_KIND_PYTHON "python-arenas"
#define LIMPET_KIND_GO "go-heap"
#define LIMPET_KIND_GO_TABLES "go-tables"
#define LIMPET_KIND_JAVA "java-heap"
#define LIMPET_KIND_WASM "wasm-memory"
#define LIMPET_KIND_NIM "nim-heap"
#define LIMPET_KIND_ERLANG "erlang-carriers"
#define LIMPET_KIND_MIMALLOC "mimalloc-heap"
#define LIMPET_KIND_TCMALLOC "tcmalloc-heap"
#define LIMPET_KIND_TCMALLOC_FREE "tcmalloc-free-pages"
#define LIMPET_OWNER_TCMALLOC "tcmalloc: heap"
#define LIMPET_KIND_JEMALLOC "jemalloc-heap"
#define LIMPET_KIND_JEMALLOC_FREE "jemalloc-free-pages"
#define LIMPET_KIND_JEMALLOC_LOCKED "jemalloc-locked" /* free pages, by mlock(2) */
#define LIMPET_KIND_JEMALLOC_RETAINED "jemalloc-retained"
#define LIMPET_REMEDY_PURGE "mallctl(\"arena.4096.purge\")" /* MALLCTL_ARENAS_ALL */
#define LIMPET_REMEDY_RELEASE "MallocExtension_ReleaseFreeMemory()"

/* What is free in a space of V8's heap: in pages, as of the last sweep, and all of a semispace that
 * waits for the next collection. */
struct limpet_v8_account {
	const char *owner;
	uint64_t free_bytes;
};
#define LIMPET_V8_ACCOUNTS 16u

struct limpet_runtimes_marked {
	struct limpet_v8_account v8[LIMPET_V8_ACCOUNTS];
	size_t v8_count;
	/* Bytes of present pages that hold nothing: of Python's arenas, of slabs of jemalloc, of
	 * spans of gperftools' tcmalloc. */
	uint64_t python_bytes, jemalloc_bytes, tcmalloc_bytes;
	struct limpet_mimalloc mimalloc;      /* by which segments were found */
	struct limpet_mimalloc_arenas arenas; /* the first ones */
};

/* Heaps that were read before. */
struct limpet_runtimes_heaps {
	const struct limpet_jemalloc *jemalloc;
	const struct limpet_tcmalloc *tcmalloc;
	const struct limpet_gperftools *gperftools;
	const struct limpet_go *go;
};
/* Marks UNKNOWN ranges, and others in these heaps; the list stays sorted. 0 or -ENOMEM. */
int limpet_runtimes_mark(const struct limpet_memory_reader *memory, struct limpet_modules *modules,
			 const struct limpet_runtimes_heaps *heaps,
			 struct limpet_memory_ranges *ranges,
			 struct limpet_runtimes_marked *ret_marked) LIMPET_MUST_CHECK;

/* Whether these words are the head of a pool of Python's pymalloc, at a multiple of 4 KiB: returns
 * the pool's bytes, or 0. *ret_used_bytes: of its objects. Public for tests. */
#define LIMPET_PYTHON_WORDS 6u
uint64_t limpet_runtimes_python_pool(uint64_t address, const uint64_t words[LIMPET_PYTHON_WORDS],
				     uint64_t *ret_used_bytes);

#endif
