package interfaces

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// reservedBuffers is the number of buffers kept free for forwarding.
const reservedBuffers = 1024

// roomForRing refuses a ring, which permanently holds empty buffers, that would leave VPP none for
// receiving: then all forwarding stops. VPP's statistics would be 10 s late.
func (v *Interfaces) roomForRing(ctx context.Context, size uint16) error {
	text, err := v.vpp.CLI(ctx, "show buffers")
	if err != nil {
		return fmt.Errorf("finding out how many buffers VPP has left: %w", err)
	}
	if free, known := freeBuffers(text); known && free < int(size)+reservedBuffers {
		return fmt.Errorf("VPP has %d free buffers, and a ring takes %d and leaves %d for packets: give it more (buffers in the options of contiv-init, "+
			"buffers-per-numa in VPP's start-up configuration), or make rings smaller (tapv2RxRingSize)", free, size, reservedBuffers)
	}
	return nil
}

// freeBuffers sums the available and cached buffers of all pools in `show buffers`.
func freeBuffers(text string) (free int, known bool) {
	header, lines, _ := strings.Cut(text, "\n")
	// Some column names have two words.
	for _, name := range []string{"Pool Name", "Data Size"} {
		header = strings.Replace(header, name, strings.ReplaceAll(name, " ", ""), 1)
	}
	columns := strings.Fields(header)
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		if len(fields) != len(columns) {
			continue
		}
		for i, column := range columns {
			if n, err := strconv.Atoi(fields[i]); err == nil && (column == "Avail" || column == "Cached") {
				free, known = free+n, true
			}
		}
	}
	return free, known
}
