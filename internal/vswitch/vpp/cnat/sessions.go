package cnat

import (
	"context"
	"fmt"
	"strings"
)

// Sessions returns the number of VPP's connections of both IP versions. A connection has two
// sessions with a common time stamp. It counts time stamps, because listing sessions holds up
// packets if VPP's main thread forwards them.
func (v *Translations) Sessions(ctx context.Context) (uint64, error) {
	if _, err := v.vpp.Use(module); err != nil {
		return 0, err
	}
	shown, err := v.vpp.CLI(ctx, "show cnat timestamp")
	if err != nil {
		return 0, fmt.Errorf("counting sessions: %w", err)
	}
	var n uint64
	_, total, _ := strings.Cut(shown, "Total timestamps")
	if _, err := fmt.Sscan(total, &n); err != nil {
		return 0, fmt.Errorf("counting sessions: VPP says %q, which has no total", shown)
	}
	return n, nil
}
