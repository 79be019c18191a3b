// A Go program without cgo: it has nothing that could be followed.
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	fmt.Printf("ready %d\n", os.Getpid())
	for lines.Scan() {
		if lines.Text() == "quit" {
			return
		}
	}
}
