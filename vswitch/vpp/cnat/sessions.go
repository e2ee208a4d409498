package cnat

import (
	"context"
	"fmt"
	"strings"
)

// Sessions returns how many connections VPP remembers, of both IP versions. The two directions of
// a connection are a session each, and have a time stamp in common, which is what is counted: to list
// the sessions would hold up packets where VPP's main thread forwards them.
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
