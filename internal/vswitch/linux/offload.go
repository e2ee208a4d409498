package linux

import (
	"fmt"
	"unsafe"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"golang.org/x/sys/unix"
)

// Checksum offloading matters where a program other than the kernel reads or writes one end of a
// VETH pair: such a program computes no checksums that the device leaves to it.

// Commands of SIOCETHTOOL, from linux/ethtool.h.
const (
	ethtoolGetRxChecksum, ethtoolSetRxChecksum = 0x14, 0x15
	ethtoolGetTxChecksum, ethtoolSetTxChecksum = 0x16, 0x17
)

type offloading = linux_interfaces.VethLink_ChecksumOffloading

const (
	offloadDefault  = linux_interfaces.VethLink_CHKSM_OFFLOAD_DEFAULT
	offloadEnabled  = linux_interfaces.VethLink_CHKSM_OFFLOAD_ENABLED
	offloadDisabled = linux_interfaces.VethLink_CHKSM_OFFLOAD_DISABLED
)

// setOffloading applies the offload settings that differ from DEFAULT.
func setOffloading(ns *namespaces.Namespace, device string, veth *linux_interfaces.VethLink) error {
	for _, direction := range []struct {
		name    string
		command uint32
		wanted  offloading
	}{
		{"rx", ethtoolSetRxChecksum, veth.GetRxChecksumOffloading()},
		{"tx", ethtoolSetTxChecksum, veth.GetTxChecksumOffloading()},
	} {
		if direction.wanted == offloadDefault {
			continue
		}
		var on uint32
		if direction.wanted == offloadEnabled {
			on = 1
		}
		if _, err := ethtool(ns.Socket(), device, direction.command, on); err != nil {
			return fmt.Errorf("set %s checksum offloading of %s: %w", direction.name, device, err)
		}
	}
	return nil
}

// describeOffloading reads the requested offload settings. It ignores a device that is
// disappearing.
func describeOffloading(ns *namespaces.Namespace, device string, veth, want *linux_interfaces.VethLink) {
	for _, direction := range []struct {
		command uint32
		wanted  offloading
		found   *offloading
	}{
		{ethtoolGetRxChecksum, want.GetRxChecksumOffloading(), &veth.RxChecksumOffloading},
		{ethtoolGetTxChecksum, want.GetTxChecksumOffloading(), &veth.TxChecksumOffloading},
	} {
		if direction.wanted == offloadDefault {
			continue
		}
		if on, err := ethtool(ns.Socket(), device, direction.command, 0); err == nil && on != 0 {
			*direction.found = offloadEnabled
		} else if err == nil {
			*direction.found = offloadDisabled
		}
	}
}

// DisableChecksumOffloading makes a device in the calling thread's network namespace compute
// checksums on sending and verify them on receiving.
func DisableChecksumOffloading(device string) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	for _, command := range []uint32{ethtoolSetRxChecksum, ethtoolSetTxChecksum} {
		if _, err := ethtool(socket, device, command, 0); err != nil {
			return fmt.Errorf("switch checksum offloading of %s off: %w", device, err)
		}
	}
	return nil
}

// ethtool runs a command with one number and returns the number that the kernel writes back. socket
// may be any socket of the namespace.
func ethtool(socket int, device string, command, number uint32) (uint32, error) {
	value := [2]uint32{command, number} // struct ethtool_value
	request := struct {
		name [unix.IFNAMSIZ]byte
		data *[2]uint32
		_    [16]byte
	}{data: &value}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return 0, errno
	}
	return value[1], nil
}
