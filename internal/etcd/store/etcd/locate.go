package etcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
)

// Locate returns the current "host:port" of the members; none if unknown. It is called for each
// connection.
type Locate func(ctx context.Context) ([]string, error)

// locator returns nil if only the endpoints are used.
func (c *Config) locator(secure bool) (Locate, error) {
	switch {
	case c.Locate == nil && c.EndpointsFile == "":
		return nil, nil
	case secure && c.ServerName == "":
		return nil, errors.New("etcd: endpoints-file needs server-name, the name in the server's certificate")
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
