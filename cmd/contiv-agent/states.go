package main

import (
	"log/slog"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/northbound/ifstate"
	"github.com/contiv/contiv/store"
	"github.com/contiv/contiv/vswitch"
)

// interfaceStates follows the states of the vswitch's interfaces and, with etcd, publishes them
// there.
func interfaceStates(node string, states vswitch.States, ready func() error, etcd store.Broker, config controller.Config, log *slog.Logger) *ifstate.Keeper {
	k := ifstate.New(ifstate.Options{
		Read: states.List, Ready: ready, Node: node, Store: etcd, Rate: config.FeedbackRate, Log: log,
	})
	states.Watch(k.Changed)
	return k
}
