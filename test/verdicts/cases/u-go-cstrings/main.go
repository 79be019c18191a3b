// A bridge from Go to a C library of measurements. The C strings that it passes are never freed.
package main

/*
#include "meter.h"
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"time"
)

func sendMeasurement(id int) int {
	line := C.CString(fmt.Sprintf("meter,device=%d,%s value=%d", id%50, strings.Repeat("tag=on,", 80), id))
	return int(C.meter_send(line))
}

func main() {
	total := 0
	fmt.Println("ready")
	ticker := time.NewTicker(20 * time.Millisecond)
	id := 0
	for range ticker.C {
		for i := 0; i < 6; i++ {
			total += sendMeasurement(id)
			id++
		}
		if id%600 == 0 {
			fmt.Fprintf(os.Stderr, "%d measurements, %d bytes\n", id, total)
		}
	}
}
