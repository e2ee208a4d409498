package southbound

import (
	"context"

	"github.com/contiv/contiv/internal/plugins/statscollector"
)

// InterfaceStats returns the source of the vswitch's interface counters for statscollector until ctx ends.
func (s *Southbound) InterfaceStats(ctx context.Context) statscollector.Source {
	states := s.vs.States()
	return func() ([]statscollector.Stats, error) {
		all, err := states.List(ctx)
		var result []statscollector.Stats
		for _, state := range all {
			c := state.GetStatistics()
			if c == nil {
				continue
			}
			result = append(result, statscollector.Stats{Interface: state.GetName(), Counters: map[statscollector.Metric]uint64{
				statscollector.InPackets: c.GetInPackets(), statscollector.OutPackets: c.GetOutPackets(),
				statscollector.InBytes: c.GetInBytes(), statscollector.OutBytes: c.GetOutBytes(),
				statscollector.InErrorPackets: c.GetInErrorPackets(), statscollector.OutErrorPackets: c.GetOutErrorPackets(),
				statscollector.DropPackets: c.GetDropPackets(), statscollector.InMissPackets: c.GetInMissPackets(),
			}})
		}
		return result, err
	}
}

// GuardDrops returns the source of the drops of source guards for statscollector until ctx ends.
func (s *Southbound) GuardDrops(ctx context.Context) statscollector.DropsSource {
	return func() ([]statscollector.Drop, error) {
		guards := s.vs.SourceGuards()
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

// Sessions returns the source of these counts for statscollector until ctx ends; nil if the vswitch does
// not count.
func (s *Southbound) Sessions(ctx context.Context) statscollector.SessionsSource {
	switch vs := s.vs.(type) {
	case protocolCounter:
		return func() (statscollector.SessionCount, error) {
			tcp, other, err := vs.NATSessionsByProtocol(ctx)
			if err != nil {
				return statscollector.SessionCount{}, err
			}
			unremembered, err := vs.ClientsNotRemembered(ctx)
			return statscollector.SessionCount{All: tcp + other, TCP: &tcp, Unremembered: &unremembered}, err
		}
	case sessionCounter:
		return func() (statscollector.SessionCount, error) {
			n, err := vs.NATSessions(ctx)
			return statscollector.SessionCount{All: n}, err
		}
	}
	return nil
}
