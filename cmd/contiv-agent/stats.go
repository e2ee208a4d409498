package main

import (
	"context"

	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/statscollector"
	"github.com/contiv/contiv/vswitch"
)

// noPods is for nodes that have none.
type noPods struct{}

func (noPods) PodInterfaces() map[string]podmanager.PodID { return nil }

// interfaceStats gives statscollector what the vswitch has counted.
func interfaceStats(states vswitch.States) statscollector.Source {
	return func() ([]statscollector.Stats, error) {
		all, err := states.List(context.Background())
		var result []statscollector.Stats
		for _, state := range all {
			s := state.GetStatistics()
			if s == nil {
				continue
			}
			result = append(result, statscollector.Stats{Interface: state.GetName(), Counters: map[statscollector.Metric]uint64{
				statscollector.InPackets: s.GetInPackets(), statscollector.OutPackets: s.GetOutPackets(),
				statscollector.InBytes: s.GetInBytes(), statscollector.OutBytes: s.GetOutBytes(),
				statscollector.InErrorPackets: s.GetInErrorPackets(), statscollector.OutErrorPackets: s.GetOutErrorPackets(),
				statscollector.DropPackets: s.GetDropPackets(), statscollector.InMissPackets: s.GetInMissPackets(),
			}})
		}
		return result, err
	}
}
