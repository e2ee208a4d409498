package hostnet

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"golang.org/x/sys/unix"
)

// Driver watches the host settings of one network namespace.
type Driver struct {
	*own.Host
	defaults defaultRoutes
	reported []string
}

// New records the existing default routes. The driver needs no closing.
func New(host *own.Host) (*Driver, error) {
	v := &Driver{Host: host}
	return v, v.rememberDefaults()
}

// Warnings returns the current problems and their remedies.
func (v *Driver) Warnings(context.Context) ([]string, error) {
	forwarding, err := v.notForwarding()
	routes, routesErr := v.lostDefaults()
	return slices.Concat(forwarding, routes), errors.Join(err, routesErr)
}

type suspicion struct{}

// Notice watches forwarding settings, default routes and devices that go down.
func (v *Driver) Notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	suspicious := false
	switch m.Header.Type {
	case unix.RTM_NEWNETCONF:
		suspicious = v.concernsForwarding(m.Data)
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		v.noticeRoute(m)
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		suspicious = v.noticeLink(m)
	}
	if suspicious {
		send(drift.Notice{Suspect: suspicion{}})
	}
}

// Check logs new warnings. It reports no keys, because no value represents these settings.
func (v *Driver) Check(b *drift.Batch) {
	if len(drift.Suspects[suspicion](b)) == 0 {
		return
	}
	warnings, err := v.Warnings(context.Background())
	if err != nil {
		v.Log.Warn("Checking settings of the host failed", "error", err)
		return
	}
	for _, w := range warnings {
		if !slices.Contains(v.reported, w) {
			v.Log.Error("Forwarding settings of the host are wrong", "problem", w)
		}
	}
	v.reported = warnings
}
