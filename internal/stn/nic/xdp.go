package nic

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Program is an XDP program that was attached to a device. It stays loaded until Close.
type Program struct {
	*os.File
	flags uint32
}

// XDP returns the ID of the XDP program that is attached to a device; 0: none.
func (k Kernel) XDP(name string) (id uint32, err error) {
	link, err := k.Device(name)
	if err != nil || link.Attrs().Xdp == nil {
		return 0, err
	}
	return link.Attrs().Xdp.ProgId, nil
}

// Detach detaches the XDP program of a device, which must have one.
func (k Kernel) Detach(name string) (Program, error) {
	link, err := k.Device(name)
	if err != nil {
		return Program{}, err
	}
	p := Program{flags: unix.XDP_FLAGS_DRV_MODE}
	xdp := link.Attrs().Xdp
	if xdp.AttachMode == nl.XDP_ATTACHED_SKB {
		p.flags = unix.XDP_FLAGS_SKB_MODE
	}
	// union bpf_attr of BPF_PROG_GET_FD_BY_ID
	request := struct{ id, next, openFlags uint32 }{id: xdp.ProgId}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_GET_FD_BY_ID, uintptr(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	if errno != 0 {
		return Program{}, fmt.Errorf("opening the XDP program %d of %s: %w", xdp.ProgId, name, errno)
	}
	p.File = os.NewFile(fd, "XDP program of "+name)
	k.before("detach")
	if err := k.setXDP(link.Attrs().Index, -1, p.flags); err != nil {
		p.Close()
		return Program{}, fmt.Errorf("taking the XDP program off %s: %w", name, err)
	}
	return p, nil
}

// Attach attaches a detached program to the device again.
func (k Kernel) Attach(name string, p Program) error {
	link, err := k.Device(name)
	if err != nil {
		return err
	}
	k.before("attach")
	if err := k.setXDP(link.Attrs().Index, int(p.Fd()), p.flags); err != nil {
		return fmt.Errorf("putting the XDP program back on %s: %w", name, err)
	}
	return nil
}

func (k Kernel) setXDP(index, fd int, flags uint32) error {
	req := k.Request(unix.RTM_SETLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	xdp := nl.NewRtAttr(unix.IFLA_XDP|unix.NLA_F_NESTED, nil)
	xdp.AddRtAttr(unix.IFLA_XDP_FD, nl.Uint32Attr(uint32(int32(fd))))
	xdp.AddRtAttr(unix.IFLA_XDP_FLAGS, nl.Uint32Attr(flags))
	req.AddData(xdp)
	return k.Do(req)
}
