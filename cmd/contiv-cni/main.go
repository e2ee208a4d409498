// Command contiv-cni is the CNI plugin of Contiv. Container runtimes execute it
// as the CNI specification says; see package cni.
package main

import (
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	cniversion "github.com/containernetworking/cni/pkg/version"
	"github.com/contiv/contiv/cni"
	"github.com/contiv/contiv/version"
)

func main() {
	plugin := cni.New(time.Now())
	skel.PluginMainFuncs(plugin.Funcs(), cniversion.All, "contiv-cni "+version.Version)
}
