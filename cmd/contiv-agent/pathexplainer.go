package main

import (
	"net/http"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/nodepath"
	"github.com/contiv/contiv/internal/agent/pathexplain"
	"github.com/contiv/contiv/internal/plugins/policy/denials"
)

// pathExplainer explains the way of packets through this node to contivctl why, and checks the ways to other nodes.
func pathExplainer(node nodepath.Node, denied *denials.Keeper) component {
	e := node.Explainer()
	return component{
		name:   "path explainer",
		rest:   map[string]http.Handler{pathexplain.URL: denied.Probing(e.Handler())},
		checks: []health.Check{{Name: "network", Look: e.Network().Problems}},
	}
}
