#include <stdlib.h>
#include <string.h>

static unsigned *weights;

__attribute__((noinline)) static void spam_train(void)
{
	weights = malloc(40000); /* made anew at each load, freed at no unload */
	for (unsigned i = 0; i < 10000; i++)
		weights[i] = i * 2654435761U;
}

unsigned spam_filter(const char *text)
{
	char *lower = strdup(text);
	unsigned score = 0;

	if (weights == NULL)
		spam_train();
	for (unsigned i = 0; lower[i] != '\0'; i++)
		score += weights[(unsigned char)lower[i] * 7 + i];
	free(lower);
	return score;
}
