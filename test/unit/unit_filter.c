/* `make test T=FILE:TEST`: of a unit test, the tests whose name has TEST within. Linked into each
 * of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char pattern[256];

__attribute__((constructor)) static void take_filter(void)
{
	const char *text = getenv("LIMPET_UNIT_FILTER");

	if (!text || !*text)
		return;
	snprintf(pattern, sizeof(pattern), "*%s*", text);
	cmocka_set_test_filter(pattern);
}
