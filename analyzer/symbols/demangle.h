/* Demangles the names of functions.
 *
 * C++ (Itanium), Rust (legacy and v0), D and Nim; any other name is returned as it is, without the
 * suffixes that compilers add to clones (`.cold`, `.part.0`...). A name from a file is hostile
 * input: its length is bounded, and what cannot be decoded is kept unchanged. Thread-safe. */
#ifndef LIMPET_ANALYZER_SYMBOLS_DEMANGLE_H
#define LIMPET_ANALYZER_SYMBOLS_DEMANGLE_H

/* Longer names are cut, before and after decoding. */
#define LIMPET_DEMANGLE_MAX_BYTES 4096

/* Returns a malloc'ed string, NULL only if out of memory. Parameters of C++ functions are kept
 * (they tell overloads apart); return types, Rust's hashes and clone marks are dropped. */
char *limpet_demangle(const char *symbol);

/* `name` without its parameter list and its template arguments: `ns::f<...>`. For narrow columns.
 * malloc'ed, NULL if out of memory. */
char *limpet_demangle_shorten(const char *name);

#endif
