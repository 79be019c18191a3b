/* A file of another profiler that was read. */
#ifndef LIMPET_ANALYZER_IMPORT_IMPORTED_H
#define LIMPET_ANALYZER_IMPORT_IMPORTED_H

#include <stdbool.h>
#include <stdint.h>

struct limpet_imported {
	int fd; /* a file in memory: the trace, see limpet-trace(5); the caller must close it */
	uint64_t lines;     /* that were read */
	uint64_t bad_lines; /* of these, those that made no sense, and were left out */
	uint64_t first_bad; /* the first of them, from 1 */
	bool cut;           /* what follows the lines could not be read */
};

#endif
