package etcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"
)

// Locate returns "host:port" of the members as they are now, none if that is not known. It
// is called for each connection.
type Locate func(ctx context.Context) ([]string, error)

// locator returns nil if members are at the endpoints only.
func (c *Config) locator(secure bool) (Locate, error) {
	switch {
	case c.Locate == nil && c.EndpointsFile == "":
		return nil, nil
	case secure && c.ServerName == "":
		return nil, errors.New("etcd: endpoints-file needs server-name, which the server's certificate must name wherever it is")
	case c.Locate != nil:
		return c.Locate, nil
	}
	return locateByFile(c.EndpointsFile), nil
}

func locateByFile(path string) Locate {
	return func(context.Context) (members []string, err error) {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("etcd: endpoints-file: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSpace(line)
			if line == "" {
				continue
			}
			if _, _, splitErr := net.SplitHostPort(line); splitErr != nil {
				err = fmt.Errorf("etcd: endpoints-file %s: %q is not like 192.168.16.1:12379", path, line)
				continue
			}
			members = append(members, line)
		}
		return members, err
	}
}

// dial connects to one of the members, the endpoint itself last. A nil Locate knows none.
func (l Locate) dial(ctx context.Context, endpoint string) (net.Conn, error) {
	var candidates []string
	var errs []error
	if l != nil {
		members, err := l(ctx)
		if err != nil {
			errs = append(errs, err)
		}
		candidates = members
	}
	candidates = append(candidates, endpoint)
	for i, address := range candidates {
		conn, err := dialOne(ctx, address, len(candidates)-i)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// dialOne gives an address that falls silent its share of the time only: of the addresses
// that are to be tried, it is the first.
func dialOne(ctx context.Context, address string, addresses int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(addresses))
		defer cancel()
	}
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", strings.TrimPrefix(path, "//")
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}
