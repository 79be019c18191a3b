/* The socket to the injector. */
#ifndef LIMPET_AGENT_CHANNEL_H
#define LIMPET_AGENT_CHANNEL_H

#include "agent/agent.h"

int limpet_channel_adopt(int fd);
/* Closes it, unless the program has closed or reused the descriptor. */
void limpet_channel_close(void);

#endif
