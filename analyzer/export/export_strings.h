/* Strings, each once, numbered from 0 in the order in which they first appear. They are valid
 * UTF-8: other bytes are replaced. */
#ifndef LIMPET_ANALYZER_EXPORT_EXPORT_STRINGS_H
#define LIMPET_ANALYZER_EXPORT_EXPORT_STRINGS_H

#include <stdint.h>
#include <uthash.h>

struct limpet_export_string {
	uint32_t number;
	UT_hash_handle hh;
	char text[];
};
/* Zero-initialised is empty and valid. */
struct limpet_export_strings {
	struct limpet_export_string *first; /* the next by hh.next, in the order of numbers */
	uint32_t count;
};

/* NULL: out of memory. NULL as `text` is "". */
const struct limpet_export_string *limpet_export_strings_add(struct limpet_export_strings *strings,
							     const char *text);
void limpet_export_strings_done(struct limpet_export_strings *strings);

#endif
