// Command contiv-cni is the CNI plugin of Contiv. Container runtimes execute it
// as the CNI specification says; see package cni. With "install" or "uninstall"
// as its argument, it puts itself on a node, or takes itself away.
package main

import (
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	cniversion "github.com/containernetworking/cni/pkg/version"
	"github.com/contiv/contiv/cni"
	"github.com/contiv/contiv/version"
)

func main() {
	start := time.Now()
	if len(os.Args) > 1 {
		os.Exit(manage(os.Args[1:]))
	}
	skel.PluginMainFuncs(cni.New(start).Funcs(), cniversion.All, "contiv-cni "+version.Version)
}
