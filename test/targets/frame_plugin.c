/* A module whose frame has ROOM bytes: see replacer.c. */
#include <stdint.h>

void *plugin_frame(void *(*function)(uint64_t), uint64_t argument);

__attribute__((noinline, visibility("default"))) void *plugin_frame(void *(*function)(uint64_t),
								    uint64_t argument)
{
	volatile uint8_t room[ROOM];
	void *answer;

	room[argument % ROOM] = 1;
	answer = function(argument);
	return room[argument % ROOM] == 1 ? answer : 0;
}
