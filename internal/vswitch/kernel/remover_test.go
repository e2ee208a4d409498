package kernel

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/models"
	"golang.org/x/sys/unix"
)

// After a removal returns, both ends and their names are gone, even while other removals are under
// way.
func TestRemovedDeviceIsGone(t *testing.T) {
	n, pod := newNode(t), newNamespace(t, "pod")
	v := openKernel(t, n)
	const taps = 2 * rtnl.MaxRemovals
	var group sync.WaitGroup
	for i := range taps {
		check(t, v.Interfaces().Create(t.Context(), tapIn(fmt.Sprintf("tap%d", i), pod)))
	}
	for i := range taps {
		group.Go(func() {
			tap := tapIn(fmt.Sprintf("tap%d", i), pod)
			name := own.DeviceName(own.DevInterface, tap.GetName())
			index, _ := v.Dev.Get(tap.GetName())
			if err := v.Interfaces().Delete(t.Context(), tap); err != nil {
				t.Error(err)
			}
			if _, err := v.LinkNamed(name); !rtnl.IsGone(err) {
				t.Errorf("%s after its removal: %v", name, err)
			}
			if out, _ := pod.Try("ip -o link show dev " + models.TapHostIfName(tap.GetName())); strings.Contains(out, "link/ether") {
				t.Errorf("the far end after the removal of %s: %s", name, out)
			}
			if err := v.DelLink(index); !errors.Is(err, unix.ENODEV) {
				t.Errorf("removing %s again: got %v, want %v", name, err, unix.ENODEV)
			}
			if err := v.Interfaces().Create(t.Context(), tap); err != nil {
				t.Errorf("making %s again: %v", name, err)
			}
		})
	}
	group.Wait()
	list, err := v.Interfaces().List(t.Context(), nil)
	check(t, err)
	if len(list) != taps {
		t.Errorf("%d TAPs are listed, want %d", len(list), taps)
	}
}
