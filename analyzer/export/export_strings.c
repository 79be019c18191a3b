#include "analyzer/export/export_strings.h"

#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/plain_text.h"

const struct limpet_export_string *limpet_export_strings_add(struct limpet_export_strings *strings,
							     const char *text)
{
	LIMPET_FREE char *repaired = limpet_plain_text_repair(text ? text : "");
	struct limpet_export_string *string;

	if (!repaired)
		return NULL;
	HASH_FIND_STR(strings->first, repaired, string);
	if (string)
		return string;
	string = malloc(sizeof(*string) + strlen(repaired) + 1);
	if (!string)
		return NULL;
	strcpy(string->text, repaired);
	string->number = strings->count++;
	HASH_ADD_STR(strings->first, text, string);
	return string;
}

void limpet_export_strings_done(struct limpet_export_strings *strings)
{
	struct limpet_export_string *string = strings->first;

	HASH_CLEAR(hh, strings->first);
	while (string) {
		struct limpet_export_string *next = string->hh.next;

		free(string);
		string = next;
	}
	strings->count = 0;
}
