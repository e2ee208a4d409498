package interfaces

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"go.fd.io/govpp/binapi/tapv2"
	"golang.org/x/sys/unix"
)

func TestFilesOfTapsThatAreGone(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: TAPs")
	}
	tuns := map[string]int{}
	for _, name := range []string{"v1tun0", "v1tun1"} {
		file, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
		if err != nil {
			t.Skipf("this machine has no TAPs: %v", err)
		}
		defer file.Close()
		request, err := unix.NewIfreq(name)
		if err != nil {
			t.Fatal(err)
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(int(file.Fd()), unix.TUNSETIFF, request); err != nil {
			t.Fatal(err)
		}
		tuns[name] = int(file.Fd())
	}
	if gone := detachedTunFiles(os.Getpid()); gone[tuns["v1tun0"]] || gone[tuns["v1tun1"]] {
		t.Errorf("gone: %v, want none", gone)
	}
	(&vswitchtest.Host{NetNS: "/proc/self/ns/net"}).Exec(t, "ip link del dev v1tun0")
	if gone := detachedTunFiles(os.Getpid()); !gone[tuns["v1tun0"]] || gone[tuns["v1tun1"]] {
		t.Errorf("gone: %v, want %d only", gone, tuns["v1tun0"])
	}
}

func TestTapFilesAreReadFromVPPsCommandLine(t *testing.T) {
	text := `Interface: tap0 (ifindex 1)
  name "vpp1"
  host-ns "/var/run/netns/pod"
  host-carrier-up: 1
  vhost-fds 21
  tap-fds 20
  gso-enabled 0
Interface: tap4096 (ifindex 2)
  vhost-fds 24 25
  tap-fds 22 23
`
	if got, want := tapFiles(text), map[string][]int{"tap0": {20}, "tap4096": {22, 23}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTapWithoutFarEndIsAnotherOne(t *testing.T) {
	wanted := &vpp_interfaces.Interface{
		Name: "tap", Type: vpp_interfaces.Interface_TAP, Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
	}
	inv := &inventory{dead: map[string]bool{"tap0": true}}
	d := &tapv2.SwInterfaceTapV2Details{DevName: "tap0", HostIfName: tapHostName(wanted), RxRingSz: defaultRing, TxRingSz: defaultRing}
	if got := inv.describeTap(d, wanted); !strings.HasPrefix(got.GetHostIfName(), ownership.UnknownPrefix) {
		t.Errorf("described as %v", got)
	}
	inv.dead = nil
	if got := inv.describeTap(d, wanted); got.GetHostIfName() != "" {
		t.Errorf("described as %v", got)
	}
}
