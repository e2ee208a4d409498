package vpp

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/kvscheduler"
)

func memifWith(name string, link *vpp_interfaces.MemifLink) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_MEMIF, Enabled: true, Link: &vpp_interfaces.Interface_Memif{Memif: link}}
}

// If VPP cannot listen on a socket, a retry must neither succeed falsely nor crash VPP.
func TestMemifThatCannotListen(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		top, err := os.MkdirTemp("", "memif") // paths of sockets are short
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(top)
		dir := filepath.Join(top, "later")
		link := &vpp_interfaces.MemifLink{Master: true, Id: 1, SocketFilename: filepath.Join(dir, "memif.sock"), Mode: vpp_interfaces.MemifLink_IP}
		one, other := memifWith("one", link), memifWith("other", link)
		v := open(t, s)
		for range 2 {
			for _, iface := range []*vpp_interfaces.Interface{one, other, one} {
				if err := v.Interfaces().Create(t.Context(), iface); err == nil || !strings.Contains(err.Error(), "directory must exist") {
					t.Fatalf("created in a directory that does not exist: error %v", err)
				}
			}
			v.Close()
			v = open(t, s)
		}
		wantInterfaces(t, v)

		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		create(t, v, one)
		wantInterfaces(t, v, one)
		if _, err := os.Stat(link.GetSocketFilename()); s.server == nil && err != nil {
			t.Errorf("VPP does not listen: %v", err)
		}
		if err := v.Interfaces().Create(t.Context(), other); err == nil || !strings.Contains(err.Error(), `used by interface "one"`) {
			t.Errorf("two memifs of one identity: error %v", err)
		}
		// The default socket is different but has the same name.
		byDefault := memifWith("default", &vpp_interfaces.MemifLink{Id: 1})
		create(t, v, byDefault)
		wantInterfaces(t, v, one, byDefault)
		remove(t, v, one)
		remove(t, v, byDefault)
		wantInterfaces(t, v)
	})
}

func TestMemifsThatEndVPPAreRefused(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		long := strings.Repeat("x", 107)
		for what, link := range map[string]*vpp_interfaces.MemifLink{
			"memif.mode":            {Mode: vpp_interfaces.MemifLink_PUNT_INJECT},
			"memif.mode 99":         {Mode: 99},
			"memif.socket_filename": {Master: true, SocketFilename: long},
			"/" + long:              {Master: true, SocketFilename: "/" + long},
		} {
			err := v.Interfaces().Create(t.Context(), memifWith("memif", link))
			if !errors.Is(err, kvscheduler.ErrUnsupported) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: error %v", what, err)
			}
		}
		wantInterfaces(t, v)
	})
}

// VPP crashes if it needs the hardware address of an interface without one.
func TestWhatNeedsFramesIsRefusedOfOthers(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		must(t, v.Bridges().Create(t.Context(), &vpp_l2.BridgeDomain{Name: "lan", Forward: true}))
		port := func(name string) *vpp_l2.BridgeDomain_Interface {
			return &vpp_l2.BridgeDomain_Interface{Name: name, BridgedVirtualInterface: true}
		}
		for _, iface := range kinds() {
			switch iface.GetName() {
			case "ipip", "gre", "wg", "slave", "multipoint":
			default:
				continue
			}
			create(t, v, iface)
			if err := v.Interfaces().SetDHCPClient(t.Context(), iface.GetName()); !errors.Is(err, kvscheduler.ErrUnsupported) {
				t.Errorf("DHCP client on %s: error %v", iface.GetName(), err)
			}
			if err := v.Bridges().Bind(t.Context(), "lan", port(iface.GetName())); !errors.Is(err, kvscheduler.ErrUnsupported) {
				t.Errorf("%s as virtual interface: error %v", iface.GetName(), err)
			}
			steering := &vpp_srv6.Steering{Name: "frames", PolicyRef: &vpp_srv6.Steering_PolicyBsid{PolicyBsid: "fc00::b1"}, Traffic: &vpp_srv6.Steering_L2Traffic_{
				L2Traffic: &vpp_srv6.Steering_L2Traffic{InterfaceName: iface.GetName()}}}
			if err := v.SRv6().Steerings().Create(t.Context(), steering); !errors.Is(err, kvscheduler.ErrUnsupported) {
				t.Errorf("frames of %s into segments: error %v", iface.GetName(), err)
			}
			remove(t, v, iface)
		}
		loop := &vpp_interfaces.Interface{Name: "loop", Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true}
		create(t, v, loop)
		must(t, v.Interfaces().SetDHCPClient(t.Context(), "loop"))
		must(t, v.Bridges().Bind(t.Context(), "lan", port("loop")))
	})
}
