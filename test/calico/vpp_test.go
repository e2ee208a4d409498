package calico

import (
	"errors"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/vswitch/vpp/vpptest"
)

// A node with VPP reaches pods of other nodes by the routes that it is given, after a restart of VPP, too.
func TestVPP(t *testing.T) {
	vpptest.Need(t)
	s := newSite(t)
	w1, w2 := s.addNode(1), s.addNode(2)
	w2.addPod("a2", pod2)
	w2.addPod("b2", pod62)
	w1.ip("link", "set", "eth1", "up")
	vpp := vpptest.NewProcess(t, "/var/run/netns/"+s.netns("w1"))
	w1.flags = []string{"--vswitch", "vpp", "--vpp-socket", vpp.Socket(), "--uplink-type", "AF_PACKET"}
	s.putBlock(block1, "w1", nil)
	s.putBlock(block2, "w2", nil)
	s.putBlock(block62, "w2", nil)
	w1.start()
	w2.start()
	// VPP answers from its uplink: its routes lead the answers back to the pods.
	s.awaitPing("a2", "172.30.0.1")
	s.awaitPing("b2", "2001:db8::1")
	w1.awaitReady()
	fib := func(destination, text string) {
		t.Helper()
		await.That(t, "VPP has a route to "+destination, func() error {
			out, err := vpp.TryCLI("show ip fib " + destination)
			if err == nil && (!strings.Contains(out, destination) || !strings.Contains(out, text)) {
				err = errors.New(out)
			}
			return err
		})
	}
	fib(block1, "drop")
	fib(block2, "172.30.0.2")

	vpp.Stop()
	s.putBlock(block3, "w2", nil) // while VPP is away
	vpp.Start()
	s.awaitPing("a2", "172.30.0.1")
	fib(block3, "172.30.0.2")
	w1.awaitReady()
}
