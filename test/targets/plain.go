// A Go program without cgo: it has nothing that could be followed.
package main

import (
	"bufio"
	"fmt"
	"os"
)

var kept [][]byte

//go:noinline
func keepBytes(mib int) {
	bytes := make([]byte, mib<<20)
	for i := 0; i < len(bytes); i += 4096 {
		bytes[i] = 1
	}
	kept = append(kept, bytes)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	fmt.Printf("ready %d\n", os.Getpid())
	for lines.Scan() {
		if lines.Text() == "quit" {
			return
		}
		var mib int
		if n, _ := fmt.Sscanf(lines.Text(), "keep %d", &mib); n == 1 {
			keepBytes(mib)
			fmt.Println("kept")
		}
	}
}
