package vswitch

import (
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

// defaultStaleThreshold is in minutes.
const defaultStaleThreshold = 4

// StaleThreshold returns the lifetime of a silent neighbour in minutes.
func StaleThreshold(s *vpp_l3.IPScanNeighbor) uint32 {
	if s.GetStaleThreshold() == 0 {
		return defaultStaleThreshold
	}
	return s.GetStaleThreshold()
}
