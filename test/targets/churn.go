// A Go program with cgo that speaks as churn.rs does: goroutines allocate by C's malloc, by a C library's
// functions (strdup) and on Go's own heap, the runtime preempts them by signals, and what was kept on the C
// side is counted.
package main

/*
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 5000

static void *keep_in_c(unsigned number)
{
	unsigned char *block = malloc(BLOCK_BYTES);

	if (block)
		memset(block, (int)(number % 251), BLOCK_BYTES);
	return block;
}

static int is_right(const unsigned char *block, unsigned number)
{
	return block[0] == number % 251 && block[BLOCK_BYTES - 1] == number % 251;
}

// Calls malloc and free by strdup, calloc and realloc; a sum that is known.
static unsigned churn_in_c(const char *word, unsigned size)
{
	char *copy = strdup(word);
	unsigned char *bytes = calloc(1, size);
	unsigned sum;

	bytes = realloc(bytes, 2 * size);
	bytes[0] = 1;
	sum = (unsigned)strlen(copy) + bytes[0] + bytes[size - 1] * (size > 1);
	free(bytes);
	free(copy);
	return sum;
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"
)

const workers = 8

var (
	running, over, rounds int64
	kept                  []unsafe.Pointer
)

func broken(what string) {
	fmt.Fprintf(os.Stderr, "broken: %s\n", what)
	os.Exit(70)
}

// A map and slices on Go's heap: enough that its collector runs all the time.
func churnInGo(seed int) int {
	words := map[string][]int{}
	for i := 0; i < 50; i++ {
		words[fmt.Sprintf("word %d %d", seed, i)] = make([]int, 40)
	}
	return len(words)
}

func churn(done *sync.WaitGroup, number int, resume *sync.Cond) {
	defer done.Done()
	word := C.CString("a word that is copied")
	defer C.free(unsafe.Pointer(word))
	for seed := number; atomic.LoadInt64(&over) == 0; seed++ {
		if atomic.LoadInt64(&running) == 0 {
			resume.L.Lock()
			for atomic.LoadInt64(&running) == 0 && atomic.LoadInt64(&over) == 0 {
				resume.Wait()
			}
			resume.L.Unlock()
			continue
		}
		if churnInGo(seed) != 50 {
			broken("a map lost a word")
		}
		for i := 1; i < 20; i++ {
			if C.churn_in_c(word, C.uint(i*10)) != 22 {
				broken("C lost a byte")
			}
		}
		atomic.AddInt64(&rounds, 1)
	}
}

func main() {
	var done sync.WaitGroup
	resume := sync.NewCond(&sync.Mutex{})
	for i := 0; i < workers; i++ {
		done.Add(1)
		go churn(&done, i, resume)
	}
	set := func(flag *int64, value int64) {
		resume.L.Lock()
		atomic.StoreInt64(flag, value)
		resume.L.Unlock()
		resume.Broadcast()
	}
	fmt.Printf("ready %d\n", os.Getpid())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var count int
		switch line := lines.Text(); {
		case line == "go":
			set(&running, 1)
			fmt.Println("going")
		case line == "hold":
			set(&running, 0)
			fmt.Println("held")
		case line == "count":
			fmt.Printf("{\"kept\":%d,\"block_bytes\":%d,\"rounds\":%d}\n", len(kept), C.BLOCK_BYTES,
				atomic.LoadInt64(&rounds))
		case line == "quit":
			set(&over, 1)
			done.Wait()
			for i, block := range kept {
				if C.is_right((*C.uchar)(block), C.uint(i)) == 0 {
					broken("a kept block changed")
				}
			}
			return
		default:
			if n, _ := fmt.Sscanf(line, "leak %d", &count); n != 1 {
				broken("unknown command")
			}
			for i := 0; i < count; i++ {
				kept = append(kept, C.keep_in_c(C.uint(len(kept))))
			}
			fmt.Println("leaked")
		}
	}
}
