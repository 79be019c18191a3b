/* One of several modules that differ in nothing but the name of their function: see turns.c. */
#include <stdint.h>

void *NAME(void *(*function)(uint64_t), uint64_t argument);
void *turn_entry(void *(*function)(uint64_t), uint64_t argument);

__attribute__((noinline, visibility("default"))) void *NAME(void *(*function)(uint64_t),
							    uint64_t argument)
{
	void *answer = function(argument);

	__asm__ volatile("" ::: "memory");
	return answer;
}

/* The same for all of them: a jump, so that it has no frame. */
__attribute__((visibility("default"))) void *turn_entry(void *(*function)(uint64_t),
							uint64_t argument)
{
	return NAME(function, argument);
}
