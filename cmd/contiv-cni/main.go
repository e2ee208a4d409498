package main

import (
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	cniversion "github.com/containernetworking/cni/pkg/version"
	"github.com/contiv/contiv/internal/cni"
	"github.com/contiv/contiv/internal/lib/version"
)

func main() {
	start := time.Now()
	if len(os.Args) > 1 {
		os.Exit(manage(os.Args[1:]))
	}
	skel.PluginMainFuncs(cni.New(start).Funcs(), cniversion.All, "contiv-cni "+version.Version)
}
