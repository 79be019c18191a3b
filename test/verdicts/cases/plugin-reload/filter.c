/* The filter. Closing it frees its state and forgets the table in it. */
#include <stdlib.h>

struct state {
	int strength;
	int *table;
	char *window;
};

static int *build_table(int strength)
{
	int *table = malloc(4096 * sizeof(*table));

	for (int i = 0; i < 4096; i++)
		table[i] = i * strength;
	return table;
}

void *filter_open(int strength)
{
	struct state *state = malloc(sizeof(*state));

	state->strength = strength;
	state->table = build_table(strength);
	state->window = calloc(1, 20000);
	return state;
}

int filter_apply(void *opaque, int value)
{
	struct state *state = opaque;
	char *copy = malloc(256);

	copy[0] = state->window[value];
	value = state->table[value] + copy[0];
	free(copy);
	return value;
}

void filter_close(void *opaque)
{
	struct state *state = opaque;

	free(state->window);
	free(state);
}
