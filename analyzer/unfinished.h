/* Files that are being written, and go when a signal ends the command: SIGINT, SIGTERM, SIGHUP,
 * unless these are ignored or handled otherwise. For commands of one thread. */
#ifndef LIMPET_ANALYZER_UNFINISHED_H
#define LIMPET_ANALYZER_UNFINISHED_H

/* `path` is borrowed until it is dropped; of more than a few at a time the rest stays in an end. */
void limpet_unfinished_add(const char *path);
/* The file is whole, or gone. */
void limpet_unfinished_drop(const char *path);

#endif
