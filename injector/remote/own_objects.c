#include "injector/remote/own_objects.h"

#include <stddef.h>
#include <string.h>

#include "common/err.h"
#include "injector/proc/proc.h"
#include "injector/proc/proc_files.h"

#define REMEMBERED 1024u

static uint64_t noted[REMEMBERED];
static size_t noted_count;

/* How many auxiliary vectors are kept; some 400 bytes each. */
#define EXECUTIONS 64u
static struct {
	char *vector;
	size_t bytes;
} executions[EXECUTIONS];
static size_t execution_count;

bool limpet_own_objects_has_inode(uint64_t inode)
{
	for (size_t i = 0; i < noted_count && i < REMEMBERED; i++)
		if (noted[i] == inode)
			return true;
	return false;
}

void limpet_own_objects_note(uint64_t inode)
{
	if (!limpet_own_objects_has_inode(inode))
		noted[noted_count++ % REMEMBERED] = inode;
}

bool limpet_own_objects_has_execution(pid_t pid)
{
	LIMPET_FREE char *vector = NULL;
	size_t bytes;

	if (limpet_proc_file_read(pid, "auxv", &vector, &bytes) < 0 || !bytes)
		return false;
	for (size_t i = 0; i < EXECUTIONS; i++)
		if (executions[i].bytes == bytes && !memcmp(executions[i].vector, vector, bytes))
			return true;
	return false;
}

void limpet_own_objects_note_execution(pid_t pid)
{
	size_t at = execution_count % EXECUTIONS, bytes;
	char *vector;

	if (limpet_own_objects_has_execution(pid) ||
	    limpet_proc_file_read(pid, "auxv", &vector, &bytes) < 0)
		return;
	free(executions[at].vector);
	executions[at].vector = vector;
	executions[at].bytes = bytes;
	execution_count++;
}
