package main

import (
	"fmt"
	"log/slog"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/internal/kubernetes/ksr/manifests"
	"github.com/contiv/contiv/internal/kubernetes/kubeclient"
)

// Values of --source.
const (
	sourceDir        = "dir"
	sourceKubernetes = "kubernetes"
)

// source is the origin of the objects.
type source struct {
	ksr.Source
	// name, as in "manifests=DIR".
	name     string
	problems func() []string
}

func (o options) newSource(log *slog.Logger) (source, error) {
	switch o.source {
	case sourceDir:
		dir, err := manifests.New(manifests.Options{Dir: o.manifests, Logger: log})
		if err != nil {
			return source{}, fmt.Errorf("--manifests: %w", err)
		}
		return source{dir, "manifests=" + o.manifests, func() (out []string) {
			for _, p := range dir.Problems() {
				out = append(out, p.String())
			}
			return out
		}}, nil
	case sourceKubernetes:
		client, err := o.api.client("contiv-ksr")
		if err != nil {
			return source{}, err
		}
		custom, err := o.api.dynamic("contiv-ksr")
		if err != nil {
			return source{}, err
		}
		api := kubeclient.New(kubeclient.Options{Client: client, Dynamic: custom, Probe: client.Probe, Logger: log})
		return source{api, "source=kubernetes", api.Problems}, nil
	}
	return source{}, fmt.Errorf("--source %q is not known: use %s or %s", o.source, sourceDir, sourceKubernetes)
}
