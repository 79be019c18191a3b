/* Key e of `limpet top`: a source in the user's editor.
 *
 * The command is the user's, and a shell runs it, so that it may have arguments. The file's name is
 * from a trace, hence from whoever wrote that: it is one argument of the command, after checks, and
 * no part of what the shell reads. */
#ifndef LIMPET_CLI_TOP_EDITOR_H
#define LIMPET_CLI_TOP_EDITOR_H

#include <stdint.h>

#include "common/err.h"

/* $VISUAL, else $EDITOR, else vi. */
const char *limpet_top_editor_command(void);

/* The path of a file that can be shown, malloc'ed. Debug information may have a relative one, of a
 * build in a directory that is not recorded: it is looked for above the module, which may be NULL,
 * then here. -EILSEQ: the name has bytes or characters that are no text, which an editor might send
 * to the terminal; -EISDIR; -EINVAL: it is no regular file, or one of the kernel's; -ENOMEM; or the
 * errors of access(2). */
int limpet_top_editor_find(const char *file, const char *module, char **ret_path) LIMPET_MUST_CHECK;

/* The arguments of sh for `command` to show a line of the file, in the form that the editor takes,
 * if it is one of those known here; 0: no line. Allocated, as are its texts; NULL: out of memory.
 */
char **limpet_top_editor_arguments(const char *command, const char *file, uint32_t line);
void limpet_top_editor_arguments_free(char **arguments);

/* Runs the command in the foreground of the terminal, which the caller has left, and waits for its
 * end. Returns its status as of wait(2), or a negative errno. */
int limpet_top_editor_run(const char *command, const char *file, uint32_t line) LIMPET_MUST_CHECK;

#endif
