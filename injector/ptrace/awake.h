/* Keeps the machine's processors awake while limpet stops threads of the target.
 *
 * Limpet and the stopped thread wake each other eight times in an attach. A processor that
 * has nothing else to do in between falls asleep each time, and takes 10 to 200 microseconds to
 * wake up: on an idle machine that is a third of a stop. The kernel's interface for it is
 * /dev/cpu_dma_latency: while the file is open, no processor enters a state from which it wakes up
 * more slowly than asked for. It closes with limpet, however that ends. It is open for a tenth of a
 * second at a time, also where a thread to be stopped is still looked for, and twenty times a
 * second at most: each time, all processors that sleep are woken.
 *
 * Who may not open it (root may), has no such device, or a kernel that sleeps without asking it,
 * has slower stops and nothing else. One thread may call these, the one that stops others. */
#ifndef LIMPET_INJECTOR_PTRACE_AWAKE_H
#define LIMPET_INJECTOR_PTRACE_AWAKE_H

#include <stdbool.h>
#include <stdint.h>

/* A processor that does not sleep takes power, and a part of the speed of one that shares its core.
 */
#define LIMPET_AWAKE_MOST_NS 100000000u
#define LIMPET_AWAKE_TIMES 20u /* a second */

/* Before a thread is stopped. Returns whether this call has begun it, and limpet_awake_end() is to
 * be called: it may have begun already. */
bool limpet_awake_begin(void);
/* At each wait: ends it after LIMPET_AWAKE_MOST_NS. `now_ns`: monotonic. */
void limpet_awake_look(uint64_t now_ns);
/* Of what a call of limpet_awake_begin() has begun. */
void limpet_awake_end(void);

/* Opened in place of the device by tests. */
extern const char *limpet_awake_device;

#endif
