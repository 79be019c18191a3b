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
 * has slower stops and nothing else. */
#ifndef LIMPET_INJECTOR_PTRACE_AWAKE_H
#define LIMPET_INJECTOR_PTRACE_AWAKE_H

#include <stdbool.h>
#include <stdint.h>

/* A processor that does not sleep takes power, and a part of the speed of one that shares its core.
 */
#define LIMPET_AWAKE_MOST_NS 100000000u
#define LIMPET_AWAKE_TIMES 20u /* a second */

#define LIMPET_AWAKE_DEVICE "/dev/cpu_dma_latency"

/* Zeroed at first. */
struct limpet_awake {
	unsigned begun; /* pairs of _begin and _end */
	bool is_open;
	int fd; /* if it is */
	uint64_t until_ns;
	unsigned times; /* in the second that began then */
	uint64_t second_ns;
};

/* Before a thread is stopped. Such pairs may be nested. */
void limpet_awake_begin(struct limpet_awake *awake);
/* At each wait: lets them sleep after LIMPET_AWAKE_MOST_NS. `now_ns`: monotonic. */
void limpet_awake_check(struct limpet_awake *awake, uint64_t now_ns);
void limpet_awake_end(struct limpet_awake *awake);

#endif
