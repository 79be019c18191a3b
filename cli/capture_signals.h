/* Signals of the commands that capture. Main thread only. */
#ifndef LIMPET_CLI_CAPTURE_SIGNALS_H
#define LIMPET_CLI_CAPTURE_SIGNALS_H

#include <signal.h>
#include <sys/types.h>

/* Installs handlers for SIGINT, SIGTERM and SIGHUP, unless they were inherited as ignored. They
 * stay blocked except while the capture waits. `command`: that of `run`, to which signals are
 * forwarded; 0: none. */
void limpet_capture_signals_setup(pid_t command);
/* The mask while the capture waits, and what the handlers set: before the end of the capture, that
 * it was requested; after it, that the rest of sealing is to be skipped. */
const sigset_t *limpet_capture_wait_mask(void);
const volatile sig_atomic_t *limpet_capture_interrupted(void);
const volatile sig_atomic_t *limpet_capture_impatient(void);
/* The capture has ended. */
void limpet_capture_signals_end(void);
/* Unblocks them from now on. */
void limpet_capture_signals_open(void);

#endif
