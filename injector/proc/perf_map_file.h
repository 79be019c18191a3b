/* /tmp/perf-PID.map, in which a program names the code that it makes (perf(1)'s convention), found
 * through the program's own root and under its number in its own pid namespace. */
#ifndef LIMPET_INJECTOR_PROC_PERF_MAP_FILE_H
#define LIMPET_INJECTOR_PROC_PERF_MAP_FILE_H

#include <sys/types.h>

/* Answers a descriptor for reading, or -errno: -ENOENT none, -ESRCH no such process, -EACCES,
 * -ELOOP (a link), -EINVAL (no regular file), -EPERM (of another owner than the process, and not
 * root's), -EOPNOTSUPP (a program may serve it, and let us wait). Never leaves the
 * process's root. */
int limpet_perf_map_open(pid_t pid);

#endif
