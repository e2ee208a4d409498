package e2e

import (
	"context"
	"path/filepath"

	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/test/lab"
)

func stnRole(node string) string { return "contiv-stn-" + node }

// stnDir is the directory of a node's contiv-stn journal.
func (c *Cluster) stnDir(node string) string { return c.nodePath(node, "var/lib/contiv/stn") }

// startSTN starts the contiv-stn of a single-NIC node, like systemd does before the kubelet.
func (c *Cluster) startSTN(ctx context.Context, n lab.Node) error {
	if !n.SingleNIC {
		return nil
	}
	c.progress("starting contiv-stn on %s", n.Name)
	// The path of the default, /var/run/contiv/stn.sock, in the node's pods.
	socket := c.nodePath(n.Name, "var/run/contiv/stn.sock")
	return c.lab.StartGuest(ctx, lab.Guest{
		Role:  stnRole(n.Name),
		Netns: n.Netns,
		Command: []string{
			filepath.Join(c.opts.BinDir, "contiv-stn"),
			"--socket", socket, "--state-dir", c.stnDir(n.Name), "--resolv-conf", c.nodePath(n.Name, "resolv.conf"),
		},
		Ready: lab.STNReady(socket),
	})
}

// StolenNICs returns the NICs of a node that contiv-stn manages, with their holders.
func (c *Cluster) StolenNICs(node string) ([]*journal.Entry, error) {
	j, err := journal.File(filepath.Join(c.stnDir(node), "journal.json")).Load()
	if err != nil {
		return nil, err
	}
	return j.NICs, nil
}
