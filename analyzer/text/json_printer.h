/* Pieces of JSON, written one by one: a large capture is never held as one tree. */
#ifndef LIMPET_ANALYZER_TEXT_JSON_PRINTER_H
#define LIMPET_ANALYZER_TEXT_JSON_PRINTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzer/model/model.h"
#include "analyzer/views/resident_parts.h"

/* Values above INT64_MAX become INT64_MAX, the largest that JSON's readers accept. */
json_t *limpet_json_number(uint64_t value);
/* 0: null. */
json_t *limpet_json_known(uint64_t value);
/* Not known: null. */
json_t *limpet_json_number_if(bool known, uint64_t value);
json_t *limpet_json_seconds(uint64_t ns);
/* NULL or empty: null. Broken bytes are repaired. */
json_t *limpet_json_text(const char *string);
/* Where the names of functions are from: "trace", "present-files", or null: there are none. */
json_t *limpet_json_names(const struct limpet_model *model);
/* The figures of a site of the model, with the keys of reports. Samples do not say which
 * allocations are temporary, and other profilers not which frees are reallocations. NULL: no
 * memory. */
json_t *limpet_json_figures(const struct limpet_model_site *figures,
			    const struct limpet_model *model);

/* What of a heap is lost: blocks and bytes; null if it is not known. NULL: no memory. */
json_t *limpet_json_lost(bool known, const struct limpet_leak_amount *amount);

/* What resident memory is, with the keys of reports. NULL: no memory. */
json_t *limpet_json_resident(const struct limpet_parts *parts);

/* From the smallest size to the largest; `averages` adds these. */
json_t *limpet_json_sizes(const struct limpet_model_size *sizes, size_t count, bool averages);

/* These take ownership of list, object and value, and return the list or the object. They return
 * NULL without memory, or for a NULL argument, so that one check at the end is enough. */
json_t *limpet_json_append(json_t *list, json_t *value);
json_t *limpet_json_set(json_t *object, const char *key, json_t *value);

struct limpet_json_printer {
	FILE *file;
	int error;    /* the first; 0: none. After it nothing is printed */
	size_t items; /* of the current list */
};

/* Keeps `code` if it is the first error. Returns whether there is none. Errors of the file are not
 * among them: they are found by ferror(). */
static inline bool limpet_json_check(struct limpet_json_printer *printer, int code)
{
	if (!printer->error && code < 0)
		printer->error = code;
	return !printer->error;
}

/* A member of an object, not its first, and an item of a list. They free the value; NULL is
 * -ENOMEM. */
void limpet_json_member(struct limpet_json_printer *printer, const char *key, json_t *value);
void limpet_json_item(struct limpet_json_printer *printer, json_t *value);
/* Members of the time that figures are of: the window, and, if that is limited, when the blocks
 * were made. */
void limpet_json_members_of_time(struct limpet_json_printer *printer,
				 const struct limpet_model *model);
/* The list is such a member, too. */
void limpet_json_begin_list(struct limpet_json_printer *printer, const char *key);
void limpet_json_end_list(struct limpet_json_printer *printer);

#endif
