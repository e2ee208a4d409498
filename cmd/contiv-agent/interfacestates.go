package main

import (
	"log/slog"
	"net/http"

	"github.com/contiv/contiv/internal/agent/northbound/ifstate"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
)

// interfaceStates follows the states of the vswitch's interfaces and, with etcd, publishes them
// there.
type interfaceStates struct {
	component
	keeper *ifstate.Keeper
}

// newInterfaceStates returns the states. etcd is nil without etcd.
func newInterfaceStates(node string, southbound *southboundComponent, events *eventLoop, etcd store.Broker, config controller.Config, log *slog.Logger) *interfaceStates {
	states := southbound.VSwitch().States()
	k := ifstate.New(ifstate.Options{
		Read: states.List, Ready: events.loop.Ready, Node: node, Store: etcd, Rate: config.FeedbackRate, Log: log,
	})
	states.Watch(k.Changed)
	return &interfaceStates{component{
		name:  "interface states",
		rest:  map[string]http.Handler{ifstate.URL: k.Handler()},
		tasks: []task{untilEnd(k.Run)},
	}, k}
}
