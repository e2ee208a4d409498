package interfaces

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// reservedBuffers is how many buffers must stay free for packets that pass through.
const reservedBuffers = 1024

// roomForRing refuses a ring, which is full of empty buffers all the time, that would leave
// VPP none to receive with: then nothing passes any more, from whomever. The
// statistics would tell 10 s late.
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

// freeBuffers adds up what is available or cached by a thread of all pools that
// `show buffers` prints.
func freeBuffers(text string) (free int, known bool) {
	header, lines, _ := strings.Cut(text, "\n")
	// Some columns have names of two words.
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
