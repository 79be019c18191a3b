/* Holds what it is given: library_tls.c, library_closed.c. */
#include <stddef.h>

static void *volatile held[10];
static __thread void *volatile held_local;

void library_hold(int i, void *object);
void library_hold_local(void *object);

void library_hold(int i, void *object)
{
	held[i] = object;
}

void library_hold_local(void *object)
{
	held_local = object;
}
