#ifndef LIMPET_TEST_TARGETS_SETTER_CALLS_H
#define LIMPET_TEST_TARGETS_SETTER_CALLS_H

/* Takes and gives back blocks by calls of calloc and free. */
void setter_free(unsigned long count);
/* The same by the variables, which are not malloc and free any more. */
void setter_take(unsigned long count);

#endif
