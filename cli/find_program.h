/* Looks for a program as a shell does. */
#ifndef LIMPET_CLI_FIND_PROGRAM_H
#define LIMPET_CLI_FIND_PROGRAM_H

#include <stdbool.h>

/* `name`: a path, or a word that is searched for in $PATH. */
bool limpet_find_program(const char *name);

#endif
