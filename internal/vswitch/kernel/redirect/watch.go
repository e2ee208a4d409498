package redirect

import (
	"fmt"
	"syscall"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/models"
	"golang.org/x/sys/unix"
)

// Notice detects removed filters.
func (v *Driver) Notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	if m.Header.Type == unix.RTM_DELTFILTER {
		v.noticeFilter(m.Data, send)
	}
}

// Check does nothing: events are conclusive.
func (v *Driver) Check(*drift.Batch) {}

func (v *Driver) noticeFilter(data []byte, send func(drift.Notice)) {
	index, ours := parseFilterEvent(data)
	name, known := v.Dev.Name(index)
	if !ours || !known {
		return
	}
	var keys []string
	for _, key := range v.Reg.KeysOf(name) {
		switch value, _ := v.Reg.Get(key); value := value.(type) {
		case *vpp_l2.XConnectPair:
			if value.GetReceiveInterface() == name {
				keys = append(keys, models.Key(value))
			}
		case *vpp_interfaces.Span:
			if value.GetInterfaceFrom() == name {
				keys = append(keys, models.Key(value))
			}
		}
	}
	if len(keys) > 0 {
		send(drift.Notice{Reason: fmt.Sprintf("a filter of interface %q was removed", name), Keys: keys})
	}
}
