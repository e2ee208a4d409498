package own

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/rtnl"
)

// Host is the driver's network namespace, with its kernel connections and the state of our objects.
// All subsystems share it.
type Host struct {
	Log *slog.Logger
	NS  *namespace.Namespace
	Net *rtnl.Conn
	NFT *nft.Conn
	// Reg holds the existing northbound values.
	Reg *Registry
	// Dev holds the devices of interfaces.
	Dev *DeviceCache

	forwards6 atomic.Bool
}

// Open connects to the kernel in the network namespace at path; "": the process's own. The caller
// closes the Host.
func Open(path string, log *slog.Logger) (_ *Host, err error) {
	h := &Host{Log: log, Reg: NewRegistry(), Dev: NewDeviceCache()}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if h.NS, err = namespace.Open(path); err != nil {
		return nil, err
	}
	if h.Net, err = rtnl.New(h.NS.Handle); err != nil {
		return nil, fmt.Errorf("opening netlink: %w", err)
	}
	h.NFT, err = nft.Open(h.NS)
	return h, err
}

// Close closes the connections. The configuration stays.
func (h *Host) Close() {
	if h.Net != nil {
		h.Net.Close()
	}
	if h.NFT != nil {
		h.NFT.Release()
	}
	if h.NS != nil {
		h.NS.Close()
	}
}
