// Keeps each event in a map for ever. C is only used for the time of day.
package main

// #include <stdlib.h>
// #include <time.h>
import "C"

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

type Event struct {
	at      int64
	subject string
	payload []byte
}

type Journal struct {
	events map[int]*Event
}

//go:noinline
func (j *Journal) Remember(number int) {
	event := &Event{
		at:      int64(C.time(nil)),
		subject: fmt.Sprintf("event %d of the journal", number),
		payload: make([]byte, 3000),
	}
	for i := range event.payload {
		event.payload[i] = byte(number + i)
	}
	j.events[number] = event
}

//go:noinline
func convert(number int) byte {
	block := C.malloc(4096)
	defer C.free(block)
	return *(*byte)(block) + byte(number)
}

func main() {
	journal := Journal{events: map[int]*Event{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	ticker := time.NewTicker(5 * time.Millisecond)
	number := 0
	for {
		select {
		case <-ended:
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			fmt.Fprintln(os.Stderr, len(journal.events), "events, Go's heap in use:", stats.HeapInuse, "of", stats.HeapSys)
			return
		case <-ticker.C:
			for i := 0; i < 10; i++ {
				journal.Remember(number)
				convert(number)
				number++
				if number == 2000 {
					fmt.Println("ready")
				}
			}
		}
	}
}
