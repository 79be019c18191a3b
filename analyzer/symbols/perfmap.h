/* Names of JIT-compiled code, from the map that its program writes for perf(1): lines "START SIZE
 * NAME", both numbers hexadecimal (tools/perf/Documentation/jit-interface.txt in Linux).
 *
 * JIT compilers reuse addresses, and lines have no time: of several lines that cover an address,
 * the last one counts. The program writes the file: it is hostile input of any length. It is read
 * once, in parts, and only lines that cover a wanted address are kept. */
#ifndef LIMPET_ANALYZER_SYMBOLS_PERFMAP_H
#define LIMPET_ANALYZER_SYMBOLS_PERFMAP_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

struct limpet_perfmap;

/* `addresses` must ascend, and are looked up as they are. `fd` is a regular file, read from its
 * start; it is borrowed. Returns 0, -ENOMEM, -EINTR (*cancel became non-zero; it may be NULL) or
 * the error of a read. */
int limpet_perfmap_read(int fd, const uint64_t *addresses, size_t count,
			const volatile sig_atomic_t *cancel, struct limpet_perfmap **ret);
void limpet_perfmap_free(struct limpet_perfmap *map);

/* The name of the code at addresses[index]. V8 writes "JS:*name file:line:column", up to node 18
 * "LazyCompile:*name file:line"; these are split. */
struct limpet_perfmap_name {
	const char *function; /* NULL: nothing covers the address */
	const char *file;     /* NULL: unknown */
	uint32_t line;        /* 0: unknown */
};
struct limpet_perfmap_name limpet_perfmap_at(const struct limpet_perfmap *map, size_t index);

#endif
