// Looks names up by a C library. The C string of each name is forgotten.
package main

/*
#include <stdlib.h>
#include <string.h>

static char *lookup_address(const char *name)
{
	char *address = malloc(64);

	memset(address, name[0], 63);
	address[63] = 0;
	return address;
}
*/
import "C"

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

type Resolver struct {
	lookups, bytes int
}

//go:noinline
func (r *Resolver) Lookup(name string) string {
	cname := C.CString(name) // and no C.free(unsafe.Pointer(cname))
	r.lookups++
	r.bytes += len(name) + 1
	address := C.lookup_address(cname)
	defer C.free(unsafe.Pointer(address))
	return C.GoString(address)
}

func main() {
	var resolver Resolver
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	ticker := time.NewTicker(2 * time.Millisecond)
	for number := 0; ; number++ {
		select {
		case <-ended:
			fmt.Fprintln(os.Stderr, resolver.lookups, "lookups,", resolver.bytes, "bytes of names lost")
			return
		case <-ticker.C:
			for i := 0; i < 4; i++ {
				resolver.Lookup(fmt.Sprintf("host-%d-%d.%s.example.org", number, i, strings.Repeat("sub", 60)))
			}
			if number == 300 {
				fmt.Println("ready")
			}
		}
	}
}
