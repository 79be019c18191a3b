/* The libraries that this limpet runs with, by their own word. */
#ifndef LIMPET_CLI_LIBRARIES_H
#define LIMPET_CLI_LIBRARIES_H

/* Prints their names and versions on standard output, as one line. */
void limpet_libraries_print(void);

/* Of that line: those that only commands which need a process call. */
void limpet_libraries_print_process(void);

#endif
