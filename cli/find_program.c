#include "cli/find_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool limpet_find_program(const char *name)
{
	const char *path = getenv("PATH");

	if (strchr(name, '/'))
		return access(name, X_OK) == 0;
	while (path && *path) {
		size_t length = strcspn(path, ":");
		char *whole = NULL;
		bool found = asprintf(&whole, "%.*s/%s", (int)length, path, name) >= 0 &&
			     access(whole, X_OK) == 0;

		free(whole);
		if (found)
			return true;
		path += length + (path[length] == ':');
	}
	return false;
}
