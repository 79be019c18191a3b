/* /tmp/perf-PID.map, in which a program names the code that it generates (perf(1)'s convention). It
 * is looked up in the program's own root, by the program's pid in its own pid namespace. */
#ifndef LIMPET_INJECTOR_PROC_PERF_MAP_FILE_H
#define LIMPET_INJECTOR_PROC_PERF_MAP_FILE_H

#include <sys/types.h>

/* Returns a descriptor for reading, or -errno: -ENOENT none, -ESRCH no such process, -EACCES,
 * -ELOOP (a link), -EINVAL (not a regular file), -EPERM (owned by neither the process's user nor
 * root), -EOPNOTSUPP (a program may serve the file, and could make us wait). Never leaves the
 * process's root. */
int limpet_perf_map_open(pid_t pid);

#endif
