package own

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/contiv/contiv/netlink/namespace"
	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/netlink/rtnl"
)

// Host is the network namespace that the driver works in: the ways to its kernel, and
// what is known of the objects in it that are ours. All subsystems share one.
type Host struct {
	Log *slog.Logger
	NS  *namespace.Namespace
	Net *rtnl.Conn
	NFT *nft.Conn
	// Reg remembers the northbound values that exist.
	Reg *Registry
	// Dev remembers which devices stand for interfaces.
	Dev *DeviceCache

	forwards6 atomic.Bool
}

// Open connects to the kernel of the network namespace with the path, "": that of the
// process. Close the Host.
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

// Close ends the connections; what is configured stays.
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
