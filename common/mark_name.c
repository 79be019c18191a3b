#include "common/mark_name.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "common/plain_text.h"
#include "common/units.h"

const char *limpet_mark_name_refuse(const char *name)
{
	uint64_t ns;

	if (!name[0])
		return "is empty";
	if (strlen(name) > LIMPET_MARK_NAME_MAX_BYTES)
		return "is longer than 64 bytes";
	switch (limpet_plain_text_check(name)) {
	case 0:
		break;
	case -EILSEQ:
		return "is not UTF-8";
	default:
		return "contains control characters";
	}
	if (limpet_units_parse_duration(name, &ns) == 0)
		return "is a time";
	return NULL;
}
