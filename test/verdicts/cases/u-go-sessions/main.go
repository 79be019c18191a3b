// A gateway that keeps each token it has seen in a map. Signatures are checked in C.
package main

/*
#include <stdlib.h>
#include <string.h>

static int check_signature(const char *token)
{
	char *copy = strdup(token);
	int sum = 0;

	for (char *at = copy; *at != '\0'; at++)
		sum = sum * 31 + *at;
	free(copy);
	return sum;
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"
)

type session struct {
	token  string
	claims map[string]string
	raw    []byte
	valid  bool
}

var sessions = map[string]*session{}

func authenticate(id int) *session {
	token := fmt.Sprintf("token-%d-%s", id, strings.Repeat("x", 60))
	s := &session{token: token, claims: map[string]string{"sub": fmt.Sprint(id), "aud": "api"}, raw: make([]byte, 6000)}
	for i := range s.raw {
		s.raw[i] = byte(id)
	}
	text := C.CString(token)
	s.valid = C.check_signature(text) != 0
	C.free(unsafe.Pointer(text))
	sessions[token] = s
	return s
}

func handle(id int) int {
	s := authenticate(id)
	body := strings.Repeat(s.claims["sub"], 200)
	return len(strings.ToUpper(body))
}

func main() {
	sent := 0
	for id := 0; id < 500; id++ {
		sent += handle(id)
	}
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintln(out, "ready")
	out.Flush()
	ticker := time.NewTicker(20 * time.Millisecond)
	id := 500
	for range ticker.C {
		for i := 0; i < 8; i++ {
			sent += handle(id)
			id++
		}
		if id%1000 < 8 {
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			fmt.Fprintf(os.Stderr, "%d sessions, heap %d, sys %d\n", len(sessions), stats.HeapAlloc, stats.Sys)
		}
	}
}
