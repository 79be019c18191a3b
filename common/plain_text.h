/* Strings of a target or a file, made fit to be shown: they may hold any byte but NUL. */
#ifndef LIMPET_COMMON_PLAIN_TEXT_H
#define LIMPET_COMMON_PLAIN_TEXT_H

#include <stddef.h>

/* Valid UTF-8 with nothing lost but what is broken: such bytes become U+FFFD. Control characters
 * stay: for JSON, whose writer escapes them. malloc'ed; NULL when memory is out. */
char *limpet_plain_text_repair(const char *text);

/* In place: control characters and broken bytes become '?', so that no name can steer a terminal.
 * Answers `text`. */
char *limpet_plain_text_clean(char *text);

/* Columns of `text`, valid UTF-8: one for each character (combining and wide ones are not told
 * apart). */
size_t limpet_plain_text_columns(const char *text);

#endif
