#include <capstone/capstone.h>
#include <libunwind.h>
#include <stdio.h>

#include "cli/libraries.h"

void limpet_libraries_print_process(void)
{
	int major, minor;

	cs_version(&major, &minor);
	printf("capstone %d.%d, libunwind %d.%d, ", major, minor, UNW_VERSION_MAJOR,
	       UNW_VERSION_MINOR);
}
