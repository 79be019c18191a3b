/* cmocka's skip() has no words; the test runner refuses a skip without them. */
#ifndef LIMPET_TEST_UNIT_SKIP_REASON_H
#define LIMPET_TEST_UNIT_SKIP_REASON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Leaves the running test as skipped. `reason`: one line, no newline. */
#define limpet_skip(reason)                                     \
	do {                                                    \
		print_message("# skip reason: %s\n", (reason)); \
		skip();                                         \
	} while (0)

#endif
