/* The socket to the injector. */
#ifndef LIMPET_AGENT_CHANNEL_H
#define LIMPET_AGENT_CHANNEL_H

#include "agent/agent.h"

int limpet_channel_adopt(int fd);
/* If it is ours still. */
void limpet_channel_close(void);

#endif
