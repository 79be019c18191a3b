EXPLAIN_SRC := \
	explain/accounts.c \
	explain/census.c \
	explain/data.c \
	explain/explain.c \
	explain/glibc_find.c \
	explain/glibc_heaps.c \
	explain/glibc_lists.c \
	explain/glibc_orphans.c \
	explain/glibc_reader.c \
	explain/glibc_regions.c \
	explain/glibc_state.c \
	explain/glibc_wait.c \
	explain/glibc_walk.c \
	explain/java.c \
	explain/jemalloc.c \
	explain/mappings.c \
	explain/mimalloc.c \
	explain/pieces.c \
	explain/present.c \
	explain/runtimes.c \
	explain/source.c \
	explain/threads.c \
	explain/tmpfs.c \
	explain/used_blocks.c \
	explain/v8.c \
	explain/verdicts.c \
	explain/vtables.c
