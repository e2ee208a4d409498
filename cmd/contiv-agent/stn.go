package main

import (
	"context"
	"log/slog"

	"github.com/contiv/contiv/internal/agent/stnreport"
)

// stnReporter claims a network card from contiv-stn, and reports to it.
type stnReporter struct {
	component
	*stnreport.Reporter // nil for a vswitch that needs no network card
}

// openSTN returns the reporter. A vswitch that forwards in the network stack of the host needs no card.
func openSTN(socket string, hostStack bool, lent *stnreport.LentCards, log *slog.Logger) (*stnReporter, error) {
	s := &stnReporter{component: component{name: "STN"}}
	if hostStack {
		return s, nil
	}
	r, err := stnreport.New(socket, lent, componentLog(log, "stn"))
	if err != nil {
		return nil, err
	}
	s.Reporter, s.close = r, r.Close
	return s, nil
}

// stnReports reports to contiv-stn whether the vswitch forwards.
func stnReports(stn *stnReporter, southbound *southboundComponent, events *eventLoop, network *networkConfig, podNetwork *podNetwork) component {
	return component{name: "reports to contiv-stn", tasks: []task{func(ctx context.Context) error {
		return stn.Run(ctx, events.loop.Synced, podNetwork.IPNet, southbound.Southbound, network.ContivConf, events.loop)
	}}}
}
