/* The file of a Go program, as the confined process that looks up names reads it: any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/symbols/gopclntab.h"
#include "analyzer/symbols/symbolize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each frame is inlined in the next; all strings end. */
static void look_up(const struct limpet_gopclntab *table, uint64_t address)
{
	struct limpet_symbol list[LIMPET_SYMBOL_MAX_INLINED];
	int count = limpet_gopclntab_find(table, address, list, LIMPET_SYMBOL_MAX_INLINED);

	if (count < 0 || count > LIMPET_SYMBOL_MAX_INLINED ||
	    (count && !limpet_gopclntab_covers(table, address)))
		abort();
	for (int i = 0; i < count; i++)
		if (!list[i].function || !strlen(list[i].function) ||
		    list[i].inlined != (i + 1 < count) ||
		    (list[i].file ? !strlen(list[i].file) || !list[i].line : list[i].line))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct limpet_gopclntab *table;

	if (limpet_gopclntab_new(data, size, &table) < 0)
		return 0;
	/* Those of the corpus have their code here. */
	for (uint64_t at = 0x400ff8; at < 0x401068; at += 4)
		look_up(table, at);
	look_up(table, 0);
	look_up(table, UINT64_MAX);
	limpet_gopclntab_free(table);
	return 0;
}
