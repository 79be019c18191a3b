/* The socket to the injector. */
#ifndef LIMPET_AGENT_CHANNEL_H
#define LIMPET_AGENT_CHANNEL_H

#include "agent/agent.h"

int limpet_channel_adopt(int fd);
/* Closes it if it is still ours. */
void limpet_channel_close(void);

#endif
