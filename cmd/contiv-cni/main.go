package main

import (
	"io"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	cniversion "github.com/containernetworking/cni/pkg/version"
	"github.com/contiv/contiv/cni"
	"github.com/contiv/contiv/cni/shortcut"
	"github.com/contiv/contiv/version"
)

// Package shortcut handles most calls of a runtime before main.
func main() {
	start := time.Now()
	if len(os.Args) > 1 {
		os.Exit(manage(os.Args[1:]))
	}
	if taken := shortcut.Taken(); taken != nil {
		os.Stdin = replay(taken, os.Stdin)
	}
	skel.PluginMainFuncs(cni.New(start).Funcs(), cniversion.All, "contiv-cni "+version.Version)
}

// replay returns a file with the bytes already read and the rest of the file.
func replay(taken []byte, rest *os.File) *os.File {
	r, w, err := os.Pipe()
	if err != nil {
		return rest // the remainder is no valid JSON, which is then reported
	}
	go func() {
		defer w.Close()
		if _, err := w.Write(taken); err == nil {
			_, _ = io.Copy(w, rest)
		}
	}()
	return r
}
