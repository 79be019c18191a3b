/* What a symbolizer, its worker and its readers find. */
#ifndef LIMPET_ANALYZER_SYMBOLS_SYMBOL_H
#define LIMPET_ANALYZER_SYMBOLS_SYMBOL_H

#include <stdbool.h>
#include <stdint.h>

/* One function at an address. Strings belong to who found it, and live as long. */
struct limpet_symbol {
	const char *function; /* demangled; NULL unknown */
	const char *file;     /* NULL unknown */
	uint32_t line;        /* 0 unknown */
	bool inlined;         /* into the next one */
};

/* A variable with static storage at an address. Strings as above. */
struct limpet_symbol_variable {
	uint64_t start, bytes; /* 0: size unknown */
	const char *name;      /* demangled */
	const char *file;      /* NULL unknown */
	uint32_t line;         /* 0 unknown */
};
#define LIMPET_SYMBOL_MAX_INLINED 32
/* So many addresses are looked up at once. */
#define LIMPET_SYMBOLIZER_BATCH 512u

#endif
