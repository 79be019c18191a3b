#include "common/family.h"

#define LIMPET_FAMILY_ROW(symbol, operation, bits) {symbol, LIMPET_OP_##operation, bits},
const struct limpet_family_member limpet_family[LIMPET_FAMILY_COUNT] = {
	LIMPET_FAMILY(LIMPET_FAMILY_ROW)};

int limpet_family_find(const char *name, uint64_t limit)
{
	for (int i = 0; i < LIMPET_FAMILY_COUNT; i++) {
		const char *wanted = limpet_family[i].name;
		uint64_t at = 0;

		while (at < limit && wanted[at] && wanted[at] == name[at])
			at++;
		if (at < limit && !wanted[at] && !name[at])
			return i;
	}
	return -1;
}

uint32_t limpet_family_first(uint16_t op)
{
	for (uint32_t i = 0; i < LIMPET_FAMILY_COUNT; i++)
		if (limpet_family[i].op == op)
			return i;
	return 0;
}
