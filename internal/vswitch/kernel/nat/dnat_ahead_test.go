package nat

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/nft/nfttest"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

type listings struct {
	*nfttest.Kernel
	n       atomic.Int64
	refused string // a set that must neither be listed nor get rules
}

func (l *listings) Ask(message, flags uint16, data []byte, each func([]byte)) error {
	if message == unix.NFT_MSG_GETSETELEM && flags&unix.NLM_F_DUMP != 0 {
		l.n.Add(1)
		if l.refused != "" && bytes.Contains(data, []byte(l.refused+"\x00")) {
			return fmt.Errorf("set %q is listed", l.refused)
		}
	}
	return l.Kernel.Ask(message, flags, data, each)
}

func (l *listings) Commit(messages []netlink.Message) error {
	for _, m := range messages {
		if l.refused != "" && m.Header.Type&0xff == unix.NFT_MSG_NEWRULE && bytes.Contains(m.Data, []byte(l.refused+"\x00")) {
			return fmt.Errorf("a rule with set %q is added", l.refused)
		}
	}
	return l.Kernel.Commit(messages)
}

func restarted(h *nfttest.Host) (*Driver, *listings) {
	kernel := &listings{Kernel: h.Kernel}
	return New(&own.Host{Log: slog.New(slog.DiscardHandler), NFT: nft.New(kernel), Reg: own.NewRegistry(), Dev: own.NewDeviceCache()}), kernel
}

func aheadService(label, ip string) *vpp_nat.DNat44 {
	return &vpp_nat.DNat44{Label: label, StMappings: []*vpp_nat.DNat44_StaticMapping{{
		ExternalIp: ip, ExternalPort: 80, Protocol: vpp_nat.DNat44_TCP,
		LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: "10.31.1.2", LocalPort: 8080, Probability: 1}, {LocalIp: "10.31.1.3", LocalPort: 8080, Probability: 1}},
	}}}
}

func TestElementsReadAheadAreNotReadAgain(t *testing.T) {
	before, h := newSite(t)
	web, mail := aheadService("web", "10.96.0.1"), aheadService("mail", "10.96.0.2")
	setService(t, before, web)
	setService(t, before, mail)
	v, kernel := restarted(h)
	v.ReadAhead()
	kernel.n.Store(0)
	list := func() []*vpp_nat.DNat44 {
		t.Helper()
		found, err := v.NAT44().ListDNAT(t.Context(), []*vpp_nat.DNat44{web, mail})
		must(t, err)
		return found
	}
	found := list()
	once := kernel.n.Load()
	if len(found) != 2 || !proto.Equal(found[0], web) || !proto.Equal(found[1], mail) {
		t.Errorf("found %v", found)
	}
	if list(); once >= kernel.n.Load()-once {
		t.Errorf("the first list took %d listings of elements, and the next one, without read-ahead, %d", once, kernel.n.Load()-once)
	}
	must(t, v.NAT44().RemoveDNAT(t.Context(), web))
	if found := list(); len(found) != 1 || !proto.Equal(found[0], mail) {
		t.Errorf("found %v after web was removed", found)
	}
}

func TestWhatWasReadAheadAndIsNotTrueAnyMore(t *testing.T) {
	web, mail := aheadService("web", "10.96.0.1"), aheadService("mail", "10.96.0.2")
	for who, remove := range map[string]func(v, other *Driver) error{
		"the driver itself": func(v, _ *Driver) error { return v.NAT44().RemoveDNAT(t.Context(), web) },
		"another":           func(_, other *Driver) error { return other.NAT44().RemoveDNAT(t.Context(), web) },
		"another, all": func(_, other *Driver) error {
			return other.nat.Locked(func() error {
				b := &nft.Batch{Table: natTable, Family: byte(nftables.TableFamilyIPv4)}
				b.DeleteTable()
				return other.nat.Commit(b)
			})
		},
	} {
		t.Run(who, func(t *testing.T) {
			other, h := newSite(t)
			setService(t, other, web)
			setService(t, other, mail)
			v, _ := restarted(h)
			v.ReadAhead()
			must(t, remove(v, other))
			found, err := v.NAT44().ListDNAT(t.Context(), []*vpp_nat.DNat44{web, mail})
			must(t, err)
			if who == "another, all" {
				if len(found) > 0 {
					t.Errorf("found %v without a table", found)
				}
				return
			}
			if len(found) != 1 || !proto.Equal(found[0], mail) {
				t.Errorf("found %v, want mail only", found)
			}
		})
	}
}
