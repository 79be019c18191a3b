/* What a shell may complete, for the scripts in cli/completions: `limpet complete WORD...`, whose
 * last word is being typed, prints a candidate a line, a tab, and what it is. A line that begins
 * with ':' is for the script: ":files", ":directories"; ":command N": from word N on (the name of
 * limpet's command is word 0) it is another program's command line. */
#ifndef LIMPET_CLI_COMPLETE_H
#define LIMPET_CLI_COMPLETE_H

#include "cli/options.h"

/* A candidate, if it begins with `word`. `what` may be NULL. */
void limpet_complete_add(const char *word, const char *candidate, const char *what);
/* The words after the command's name. Returns the exit status. */
int limpet_complete(const struct limpet_line *command, int count, char *const *words);

#endif
