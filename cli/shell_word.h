/* Words of a command line, for hints that can be copied. */
#ifndef LIMPET_CLI_SHELL_WORD_H
#define LIMPET_CLI_SHELL_WORD_H

#include <stdio.h>

/* Prints the word as a shell reads it: in quotes if it has characters that need them. */
void limpet_cli_append_word(FILE *to, const char *word);

#endif
