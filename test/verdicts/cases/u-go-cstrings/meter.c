#include "meter.h"
#include <stdlib.h>
#include <string.h>

int meter_send(const char *line)
{
	char *frame = malloc(strlen(line) + 64);
	int size;

	strcpy(frame + 16, line);
	frame[0] = 'M';
	size = (int)strlen(frame + 16);
	free(frame);
	return size;
}
