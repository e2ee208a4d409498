// Package deploy holds what installs Contiv on a cluster.
package deploy

import "embed"

// Chart is the Helm chart, below the directory chart. The manifests *.yaml beside it are what
// it renders with default values.
//
//go:embed all:chart
var Chart embed.FS
