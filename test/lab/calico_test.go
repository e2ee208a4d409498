package lab_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
)

func TestCalicoLabWithoutAUsableEtcd(t *testing.T) {
	opts := options(t)
	opts.Calico, opts.StartTimeout = true, 4*time.Second // enough for etcd to start
	_, err := lab.Up(t.Context(), opts)
	requireError(t, err, "etcd does not take Calico's data")
	requireNothingLeft(t, opts)
}

func TestCalicoLabRefusesOptions(t *testing.T) {
	opts := options(t)
	opts.Calico, opts.VSwitches = true, []string{lab.VPPVSwitch}
	opts.VPPBin = "/bin/true"
	_, err := lab.Up(t.Context(), opts)
	requireError(t, err, "leave out --vswitch vpp")
	opts.VSwitches, opts.Bare = nil, true
	_, err = lab.Up(t.Context(), opts)
	requireError(t, err, "--calico is not for it")
}

func TestBlocksOfCalicoNodes(t *testing.T) {
	seen := map[string]bool{}
	for index := 1; index <= 253; index++ {
		n := lab.Node{Index: index}
		for block, pool := range map[netip.Prefix]netip.Prefix{n.CalicoBlock(): lab.CalicoPool, n.CalicoBlock6(): lab.CalicoPool6} {
			if block != block.Masked() || !pool.Contains(block.Addr()) || seen[fmt.Sprint(block)] {
				t.Fatalf("node %d has the block %s", index, block)
			}
			seen[fmt.Sprint(block)] = true
		}
	}
}
