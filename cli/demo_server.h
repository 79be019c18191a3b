/* What `limpet demo` captures: a server in small, without a network, that leaks. */
#ifndef LIMPET_CLI_DEMO_SERVER_H
#define LIMPET_CLI_DEMO_SERVER_H

#include <sys/types.h>

/* Forks the server, which runs until it is killed, or this thread has ended. `capturer`'s
 * descendants may trace it where Yama lets only ancestors. Returns its process, or -errno. */
pid_t limpet_demo_server_start(pid_t capturer);

#endif
