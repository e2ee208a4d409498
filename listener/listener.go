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

// ErrUnauthenticated is wrapped when an address would be open to everybody.
var ErrUnauthenticated = errors.New("everybody who reaches this address could come in")

// Options of all TCP addresses of a program. The zero value serves loopback
// addresses without TLS.
type Options struct {
	// CertFile and KeyFile are PEM files with the server's certificate, those that
	// sign it included, and its key. They are read again when they change. Empty: no TLS.
	CertFile, KeyFile string
	// ClientCAFile is a PEM file with the authorities whose client certificates are
	// accepted; a client without one is refused. Empty: clients need none.
	ClientCAFile string
	// Roles of clients, read or configure, by the common names of their certificates; Everybody: of all.
	// Certificates may name roles, too (RolePrefix). Who has none can do nothing.
	Roles map[string]string
	// AllowUnauthenticated permits all addresses, and all that is served there, without
	// client certificates.
	AllowUnauthenticated bool
}

// Flags registers a flag for each option.
func (o *Options) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.CertFile, "tls-cert-file", "", "certificate of this server (PEM): serve all TCP addresses with TLS")
	f.StringVar(&o.KeyFile, "tls-key-file", "", "key of the certificate (PEM)")
	f.StringVar(&o.ClientCAFile, "tls-client-ca-file", "", "authorities that sign client certificates (PEM): clients without one are refused")
	f.StringToStringVar(&o.Roles, "tls-client-role", nil, "NAME=read or NAME=configure: what the client whose certificate has this common name may do, * being all; repeatable. "+
		"Certificates with the organization contiv:read or contiv:configure need none")
	f.BoolVar(&o.AllowUnauthenticated, "allow-unauthenticated", false, "serve everything on all TCP addresses, without client certificates")
}

// Listen opens an address: "unix:///path" as Unix does, without TLS; else "host:port".
func (o Options) Listen(address string) (net.Listener, error) { return o.listen(address, true) }

// ListenTrusted is Listen for what only those may use who have shown who they are: loopback
// addresses need client certificates, too, for every user of the machine reaches them.
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
			"or say --allow-unauthenticated", ErrUnauthenticated, instead)
	}
	l, err := net.Listen("tcp", address)
	if err != nil || config == nil {
		return l, err
	}
	return tls.NewListener(l, config), nil
}

// isLoopback reports whether only this machine reaches the address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true // Listen says what is wrong with it
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Unix opens a unix socket with mode 0600, in a directory that is created with mode 0700 if it is
// missing. A socket without a listener is replaced; one that is in use is an error.
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
