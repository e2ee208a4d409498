package etcd

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialer connects to etcd.
type dialer struct {
	endpoints []string
	locate    Locate // nil: use only the endpoints
	mark      uint32 // Config.Mark

	mu sync.Mutex
	// reached are the last addresses that answered, newest first.
	reached []netip.AddrPort
}

// maxReached limits dialer.reached: etcd clusters have few members.
const maxReached = 16

// dial connects to one of the members, or to the endpoint as the last resort.
func (d *dialer) dial(ctx context.Context, endpoint string) (net.Conn, error) {
	var candidates []string
	var errs []error
	if d.locate != nil {
		members, err := d.locate(ctx)
		if err != nil {
			errs = append(errs, err)
		}
		candidates = members
	}
	candidates = append(candidates, endpoint)
	marks := []uint32{0}
	if d.mark != 0 {
		marks = []uint32{d.mark, 0}
	}
	for i, address := range candidates {
		for j, mark := range marks {
			conn, err := dialOne(ctx, address, mark, (len(candidates)-i)*len(marks)-j)
			if err == nil {
				d.note(conn.RemoteAddr())
				return conn, nil
			}
			errs = append(errs, err)
		}
	}
	return nil, errors.Join(errs...)
}

// dialOne uses only its share of the time, so that a silent address leaves time for the remaining
// attempts.
func dialOne(ctx context.Context, address string, mark uint32, attempts int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(attempts))
		defer cancel()
	}
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address, mark = "unix", strings.TrimPrefix(path, "//"), 0
	}
	dial := net.Dialer{}
	if mark != 0 {
		dial.Control = func(_, _ string, socket syscall.RawConn) (err error) {
			controlErr := socket.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark)) })
			return errors.Join(controlErr, err)
		}
	}
	return dial.DialContext(ctx, network, address)
}

func (d *dialer) note(addr net.Addr) {
	tcp, is := addr.(*net.TCPAddr)
	if !is {
		return
	}
	at := tcp.AddrPort()
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reached = slices.DeleteFunc(d.reached, func(o netip.AddrPort) bool { return o == at })
	d.reached = slices.Insert(d.reached, 0, at)
	d.reached = d.reached[:min(len(d.reached), maxReached)]
}

// addresses returns the sorted addresses of the endpoints and members, and the last ones that
// answered. Names count only after one of their addresses has answered.
func (d *dialer) addresses(ctx context.Context) (list []netip.AddrPort) {
	var texts []string
	for _, endpoint := range d.endpoints {
		if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
			endpoint = u.Host
		}
		texts = append(texts, endpoint)
	}
	if d.locate != nil {
		members, _ := d.locate(ctx) // dial reports the error
		texts = append(texts, members...)
	}
	for _, text := range texts {
		if at, err := netip.ParseAddrPort(text); err == nil {
			list = append(list, netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port()))
		}
	}
	d.mu.Lock()
	list = append(list, d.reached...)
	d.mu.Unlock()
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}
