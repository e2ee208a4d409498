package redirects

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/nft/nfttest"
	"golang.org/x/sys/unix"
)

// If the kernel fails to delete UDP flows, the next change deletes them: a retry of the first has
// no difference to apply.
func TestFlowsEndOnceTheKernelForgets(t *testing.T) {
	r := withKernel(nil, nft.New(nfttest.NewHost().Kernel), func() {})
	at := flow{netip.MustParseAddrPort("10.9.0.1:30010"), unix.IPPROTO_UDP}
	web := change{"default/web", []entry{{at, netip.MustParseAddrPort("172.30.1.1:30080"), netip.MustParseAddr("172.30.1.3")}}}
	refusal := errors.New("no memory")
	r.endFlows = func(conntrack.Stale) error { return refusal }
	if errs := r.change([]change{web}, func() {}); !errors.Is(errs[0], refusal) {
		t.Fatalf("the change returned %v, want %v", errs[0], refusal)
	}
	ended := 0
	r.endFlows = func(stale conntrack.Stale) error {
		for to := range stale {
			if to == (conntrack.Destination{Addr: at.at.Addr(), Protocol: at.protocol, Port: at.at.Port()}) {
				ended++
			}
		}
		return nil
	}
	for range 2 {
		if errs := r.change([]change{web}, func() {}); errs[0] != nil {
			t.Fatal(errs[0])
		}
	}
	if ended != 1 {
		t.Errorf("flows ended %d times, want once", ended)
	}
}
