package links

import (
	"encoding/binary"
	"unsafe"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"golang.org/x/sys/unix"
)

// ethtoolCmd is struct ethtool_cmd of linux/ethtool.h, as bytes.
type ethtoolCmd [44]byte

const (
	ethtoolGetSettings = 1 // ETHTOOL_GSET
	// Offsets in ethtoolCmd. The speed, in Mbit/s, is in two halves.
	offsetSpeed, offsetDuplex, offsetSpeedHigh = 12, 14, 28
)

// linkSettings returns the speed, in bit/s, and the duplex mode of a device; zero if unknown. fd is
// any socket of the network namespace.
func linkSettings(fd int, device string) (speed uint64, duplex vpp_interfaces.InterfaceState_Duplex) {
	var cmd ethtoolCmd
	binary.NativeEndian.PutUint32(cmd[:], ethtoolGetSettings)
	request := struct {
		name [unix.IFNAMSIZ]byte
		data *ethtoolCmd
		_    [16]byte
	}{data: &cmd}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return 0, 0
	}
	return cmd.settings()
}

func (c *ethtoolCmd) settings() (speed uint64, duplex vpp_interfaces.InterfaceState_Duplex) {
	mbits := uint32(binary.NativeEndian.Uint16(c[offsetSpeedHigh:]))<<16 | uint32(binary.NativeEndian.Uint16(c[offsetSpeed:]))
	if mbits == 0 || mbits == 0xffff || mbits == 0xffffffff {
		return 0, 0
	}
	switch c[offsetDuplex] {
	case 0:
		duplex = vpp_interfaces.InterfaceState_HALF
	case 1:
		duplex = vpp_interfaces.InterfaceState_FULL
	}
	return uint64(mbits) * 1e6, duplex
}
