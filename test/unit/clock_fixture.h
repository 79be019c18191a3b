/* The monotonic clock of a test: it stands still until the test moves it, so that nothing hangs on
 * how fast the machine is. For programs linked with $(CLOCK_FIXTURE) of test/module.mk. */
#ifndef LIMPET_TEST_CLOCK_FIXTURE_H
#define LIMPET_TEST_CLOCK_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

/* Later than any deadline that is computed from it by mistake. */
#define CLOCK_FIXTURE_NEVER (UINT64_MAX / 2)

uint64_t clock_fixture_ns(void);
void clock_fixture_move(uint64_t ns);
/* Each look at the clock moves it by so much; 0, the default: none does. */
void clock_fixture_step(uint64_t ns);
/* Whether poll() with a time limit, when nothing is there, at once lets that time pass on the
 * clock. Otherwise, the default, it waits for as long as it takes. */
void clock_fixture_skip_polls(bool skip);

#endif
