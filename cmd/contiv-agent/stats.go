package main

import (
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/statscollector"
	"github.com/contiv/contiv/vswitch/kernel"
)

// noPods is for nodes that have none.
type noPods struct{}

func (noPods) PodInterfaces() map[string]podmanager.PodID { return nil }

// interfaceStats gives statscollector what the kernel has counted.
func interfaceStats(vs *kernel.VSwitch) statscollector.Source {
	return func() ([]statscollector.Stats, error) {
		all, err := vs.InterfaceStats()
		result := make([]statscollector.Stats, len(all))
		for i, s := range all {
			result[i] = statscollector.Stats{Interface: s.Name, Counters: map[statscollector.Metric]uint64{
				statscollector.InPackets: s.InPackets, statscollector.OutPackets: s.OutPackets,
				statscollector.InBytes: s.InBytes, statscollector.OutBytes: s.OutBytes,
				statscollector.InErrorPackets: s.InErrors, statscollector.OutErrorPackets: s.OutErrors,
				statscollector.DropPackets: s.Drops, statscollector.InMissPackets: s.Missed,
			}}
		}
		return result, err
	}
}
