package foreign

import (
	"fmt"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nlattr"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Hook attributes that the nftables library does not decode.
const (
	hookDevs   = 4 // NFTA_HOOK_DEVS
	deviceName = 1 // NFTA_DEVICE_NAME
)

func devices(ns *namespace.Namespace) (map[string][]string, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: int(ns.Handle)})
	if err != nil {
		return nil, fmt.Errorf("opening netlink for nftables: %w", err)
	}
	defer conn.Close()
	found := map[string][]string{}
	for _, family := range []nftables.TableFamily{nftables.TableFamilyNetdev, nftables.TableFamilyINet} {
		chains, err := conn.Execute(netlink.Message{
			Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETCHAIN, Flags: netlink.Request | netlink.Dump},
			Data:   []byte{byte(family), 0, 0, 0},
		})
		if err != nil {
			return nil, fmt.Errorf("listing the devices of chains: %w", err)
		}
		for _, m := range chains {
			table, name, on := &nftables.Table{Family: family}, "", []string(nil)
			for attr, value := range nlattr.All(m.Data[4:]) {
				switch attr {
				case unix.NFTA_CHAIN_TABLE:
					table.Name = unix.ByteSliceToString(value)
				case unix.NFTA_CHAIN_NAME:
					name = unix.ByteSliceToString(value)
				case unix.NFTA_CHAIN_HOOK:
					on = devicesOf(value)
				}
			}
			if len(on) > 0 {
				found[key(table, name)] = on
			}
		}
	}
	return found, nil
}

func devicesOf(hook []byte) (names []string) {
	for attr, value := range nlattr.All(hook) {
		switch attr {
		case unix.NFTA_HOOK_DEV:
			names = append(names, unix.ByteSliceToString(value))
		case hookDevs:
			for attr, value := range nlattr.All(value) {
				if attr == deviceName {
					names = append(names, unix.ByteSliceToString(value))
				}
			}
		}
	}
	return names
}
