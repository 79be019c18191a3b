#include "analyzer/texts.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct limpet_texts {
	UT_hash_handle hh;
	char text[];
};

const char *limpet_texts_keep(struct limpet_texts **texts, const char *string)
{
	size_t length = strlen(string);
	struct limpet_texts *text;

	HASH_FIND(hh, *texts, string, length, text);
	if (text)
		return text->text;
	text = malloc(sizeof(*text) + length + 1);
	if (!text)
		return NULL;
	memcpy(text->text, string, length + 1);
	HASH_ADD_KEYPTR(hh, *texts, text->text, length, text);
	return text->text;
}

void limpet_texts_free(struct limpet_texts *texts)
{
	struct limpet_texts *text = texts;

	/* Clearing frees the table and leaves its members linked. */
	HASH_CLEAR(hh, texts);
	while (text) {
		struct limpet_texts *next = text->hh.next;

		free(text);
		text = next;
	}
}
