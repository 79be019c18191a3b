/* Names of functions as people write them.
 *
 * C++ (Itanium), Rust (legacy and v0), D and Nim; every other name is returned as it is, less the
 * suffixes that compilers add to clones (`.cold`, `.part.0`...). A name out of a file is hostile
 * input: it is bounded, and what cannot be decoded is kept as it stands. Thread-safe. */
#ifndef LIMPET_ANALYZER_SYMBOLS_DEMANGLE_H
#define LIMPET_ANALYZER_SYMBOLS_DEMANGLE_H

/* Longer names are cut, before and after decoding. */
#define LIMPET_DEMANGLE_MAX_BYTES 4096

/* Answers a malloc'ed string, NULL only when memory is out. Parameters of C++ functions are kept
 * (they tell overloads apart); return types, Rust's hashes and clone marks are dropped. */
char *limpet_demangle(const char *symbol);

/* `name` without its parameter list and without what stands in its template arguments:
 * `ns::f<...>`. For narrow columns. malloc'ed, NULL when memory is out. */
char *limpet_demangle_shorten(const char *name);

#endif
