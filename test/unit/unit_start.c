/* What each unit test has: `make test T=FILE:TEST` runs the tests whose name has TEST within; and a
 * program that asks for symbols is asked for by itself, as limpet is, to read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/symbols/symbol_worker.h"

static char pattern[256];

__attribute__((constructor)) static void begin(int argc, char **argv)
{
	const char *text = getenv("LIMPET_UNIT_FILTER");

	if (argc == 2 && !strcmp(argv[1], LIMPET_SYMBOL_WORKER))
		exit(limpet_symbol_worker());
	if (!text || !*text)
		return;
	snprintf(pattern, sizeof(pattern), "*%s*", text);
	cmocka_set_test_filter(pattern);
}
