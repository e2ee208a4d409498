package listener

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// ErrUnauthenticated is wrapped if an address would be open to unauthenticated clients.
var ErrUnauthenticated = errors.New("clients of this address would not be authenticated")

// Options apply to all TCP addresses of a program. The zero value serves loopback without TLS.
type Options struct {
	// CertFile and KeyFile are PEM files with the server's certificate, including intermediates,
	// and its key. They are read again after changes. Empty: no TLS.
	CertFile, KeyFile string
	// ClientCAFile is a PEM file with the authorities of client certificates, which are then
	// required. Empty: no client certificates.
	ClientCAFile string
	// Roles maps common names of client certificates, or Everybody, to read or configure.
	// Certificates may also grant roles (RolePrefix). Clients without a role have no permissions.
	Roles map[string]string
	// AllowUnauthenticated permits everything without client certificates, on all addresses.
	AllowUnauthenticated bool
}

func (o *Options) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.CertFile, "tls-cert-file", "", "server certificate (PEM); enables TLS on all TCP addresses")
	f.StringVar(&o.KeyFile, "tls-key-file", "", "private key of --tls-cert-file (PEM)")
	f.StringVar(&o.ClientCAFile, "tls-client-ca-file", "", "certificate authorities of clients, which must show a certificate (PEM)")
	f.StringToStringVar(&o.Roles, "tls-client-role", nil, "role of clients by the common name of their certificate: NAME=read or NAME=configure, * for all names (repeatable). "+
		"Not needed for certificates with the organization contiv:read or contiv:configure")
	f.BoolVar(&o.AllowUnauthenticated, "allow-unauthenticated", false, "serve everything on all TCP addresses, without client certificates")
}

// Listen opens "unix:///path" like Unix, or "host:port".
func (o Options) Listen(address string) (net.Listener, error) { return o.listen(address, true) }

// ListenTrusted is Listen, but requires client certificates on loopback, too, which every user of
// the machine can reach.
func (o Options) ListenTrusted(address string) (net.Listener, error) { return o.listen(address, false) }

func (o Options) listen(address string, loopback bool) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		return Unix(path)
	}
	if err := o.checkRoles(); err != nil {
		return nil, err
	}
	config, err := o.serverConfig()
	if err != nil {
		return nil, err
	}
	if o.ClientCAFile == "" && !o.AllowUnauthenticated && !(loopback && isLoopback(address)) {
		instead := "a unix socket"
		if loopback {
			instead = "a loopback address"
		}
		return nil, fmt.Errorf("%w: give --tls-cert-file, --tls-key-file and --tls-client-ca-file, use %s, "+
			"or set --allow-unauthenticated", ErrUnauthenticated, instead)
	}
	l, err := net.Listen("tcp", address)
	if err != nil || config == nil {
		return l, err
	}
	return tls.NewListener(l, config), nil
}

// isLoopback reports whether only this machine can reach the address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // net.Listen reports the error
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Unix opens a unix socket with mode 0600, and creates its directory with mode 0700 if missing. It
// replaces a stale socket; a socket in use is an error.
func Unix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("another process listens on %s: stop it, or choose another path", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
