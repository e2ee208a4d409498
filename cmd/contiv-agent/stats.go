package main

import (
	"context"
	"log/slog"

	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/statscollector"
	"github.com/contiv/contiv/vswitch"
	"github.com/prometheus/client_golang/prometheus"
)

// noPods stands for podmanager on nodes without pods.
type noPods struct{}

func (noPods) PodInterfaces() map[string]podmanager.PodID { return nil }

// interfaceStats reports the vswitch's interface counters to statscollector.
func interfaceStats(ctx context.Context, states vswitch.States) statscollector.Source {
	return func() ([]statscollector.Stats, error) {
		all, err := states.List(ctx)
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

// guardDrops reports the drops of the vswitch's source guards to statscollector.
func guardDrops(ctx context.Context, vs vswitch.VSwitch) statscollector.DropsSource {
	return func() ([]statscollector.Drop, error) {
		guards := vs.SourceGuards()
		if guards == nil {
			return nil, nil
		}
		all, err := guards.Drops(ctx)
		var result []statscollector.Drop
		for _, d := range all {
			result = append(result, statscollector.Drop{Interface: d.Interface, Reason: string(d.Reason), Packets: d.Packets})
		}
		return result, err
	}
}

// sessionCounter is a vswitch that counts translated connections.
type sessionCounter interface {
	NATSessions(context.Context) (uint64, error)
}

// protocolCounter also counts them by protocol, and clients without session affinity.
type protocolCounter interface {
	NATSessionsByProtocol(context.Context) (tcp, other uint64, err error)
	ClientsNotRemembered(context.Context) (uint64, error)
}

// registerSessions adds these counts to the metrics until ctx ends.
func registerSessions(ctx context.Context, o options, vs vswitch.VSwitch, registry prometheus.Registerer, log *slog.Logger) {
	var source statscollector.SessionsSource
	switch counter := vs.(type) {
	case protocolCounter:
		source = func() (statscollector.SessionCount, error) {
			tcp, other, err := counter.NATSessionsByProtocol(ctx)
			if err != nil {
				return statscollector.SessionCount{}, err
			}
			unremembered, err := counter.ClientsNotRemembered(ctx)
			return statscollector.SessionCount{All: tcp + other, TCP: &tcp, Unremembered: &unremembered}, err
		}
	case sessionCounter:
		source = func() (statscollector.SessionCount, error) {
			n, err := counter.NATSessions(ctx)
			return statscollector.SessionCount{All: n}, err
		}
	default:
		return
	}
	registry.MustRegister(statscollector.NewSessions(o.nodeName, source, log))
}
