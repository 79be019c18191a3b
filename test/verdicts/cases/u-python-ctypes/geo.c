#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The caller frees the answer by geo_free(). */
char *geo_encode(double latitude, double longitude)
{
	char text[900];
	int at = 0;

	for (int i = 0; i < 20; i++) {
		latitude *= 1.01;
		longitude *= 0.99;
		at += snprintf(text + at, sizeof(text) - (size_t)at, "%.8f,%.8f;", latitude,
			       longitude);
	}
	return strdup(text);
}

void geo_free(char *text)
{
	free(text);
}
