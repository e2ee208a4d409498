// Package deploy holds the manifests that install Contiv on a cluster.
package deploy

import "embed"

// Manifests are the YAML files, as the chart renders them with default values.
//
//go:embed *.yaml
var Manifests embed.FS
