package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// Credentials are read for each connection.
type Credentials struct {
	// Certificate returns the client's certificate.
	Certificate func() (*tls.Certificate, error)
	// Authorities returns the authorities of the server's certificate.
	Authorities func() (*x509.CertPool, error)
}

// CheckFiles returns an error if the files of the configuration cannot be used now. The error of a
// missing file wraps fs.ErrNotExist.
func (c *Config) CheckFiles() error {
	t, err := c.tlsConfig()
	if err != nil || t == nil || c.Credentials != nil {
		return err
	}
	credentials := c.files()
	if c.CAFile != "" {
		if _, err := credentials.Authorities(); err != nil {
			return err
		}
	}
	if c.CertFile != "" {
		if _, err := credentials.Certificate(); err != nil {
			return err
		}
	}
	return nil
}

// files returns credentials that read the files.
func (c *Config) files() *Credentials {
	f := &Credentials{}
	if c.CAFile != "" {
		f.Authorities = func() (*x509.CertPool, error) {
			pem, err := os.ReadFile(c.CAFile)
			if err != nil {
				return nil, fmt.Errorf("etcd: ca-file: %w", err)
			}
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("etcd: ca-file %s contains no PEM certificate", c.CAFile)
			}
			return pool, nil
		}
	}
	if c.CertFile != "" {
		f.Certificate = func() (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("etcd: cert-file and key-file: %w", err)
			}
			return &cert, nil
		}
	}
	return f
}

// wantsNoTLS reports whether all endpoints, at least one, are http://.
func (c *Config) wantsNoTLS() bool {
	return len(c.Endpoints) > 0 && !slices.ContainsFunc(c.Endpoints, func(e string) bool { return !strings.HasPrefix(e, "http://") })
}

// tlsConfig returns nil for connections without TLS: if the configuration disables it, or without
// TLS files, if no endpoint is https://.
func (c *Config) tlsConfig() (*tls.Config, error) {
	files := c.CAFile != "" || c.CertFile != "" || c.KeyFile != ""
	if c.InsecureTransport {
		switch {
		case files && c.wantsNoTLS():
			return nil, fmt.Errorf("etcd: ca-file, cert-file and key-file need TLS, but the endpoints are %s: use https:// or remove the files", strings.Join(c.Endpoints, ", "))
		case files:
			return nil, errors.New("etcd: insecure-transport excludes ca-file, cert-file and key-file: remove one or the other")
		}
		return nil, nil
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, errors.New("etcd: cert-file and key-file require each other: set both")
	}
	credentials := c.Credentials
	if credentials == nil {
		if !files && !c.InsecureSkipTLSVerify && !c.wantsTLS() {
			return nil, nil
		}
		credentials = c.files()
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.InsecureSkipTLSVerify}
	if credentials.Certificate != nil {
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return credentials.Certificate() }
	}
	if (c.ServerName != "" || credentials.Authorities != nil) && !c.InsecureSkipTLSVerify {
		// The authorities of a tls.Config cannot be replaced, and the etcd client uses the host of
		// the endpoint as the name even if ServerName is set.
		t.InsecureSkipVerify = true
		names := []string{c.ServerName}
		if c.ServerName == "" {
			names = c.hosts() // the connection's host name lacks addresses
		}
		t.VerifyConnection = func(state tls.ConnectionState) error {
			var roots *x509.CertPool // the system's
			if credentials.Authorities != nil {
				var err error
				if roots, err = credentials.Authorities(); err != nil {
					return err
				}
			}
			return verifyName(state, roots, names)
		}
	}
	return t, nil
}

// verifyName verifies the server's certificate like crypto/tls, for one of the names.
func verifyName(state tls.ConnectionState, roots *x509.CertPool, names []string) error {
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, cert := range state.PeerCertificates[1:] {
		opts.Intermediates.AddCert(cert)
	}
	var errs []error
	for _, opts.DNSName = range names {
		_, err := state.PeerCertificates[0].Verify(opts)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// hosts returns the hosts of the endpoints.
func (c *Config) hosts() []string {
	var hosts []string
	for _, endpoint := range c.Endpoints {
		_, address, isURL := strings.Cut(endpoint, "://")
		if !isURL {
			address = endpoint
		}
		if host, _, err := net.SplitHostPort(strings.TrimSuffix(address, "/")); err == nil {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func (c *Config) wantsTLS() bool {
	for _, e := range c.Endpoints {
		if strings.HasPrefix(e, "https://") {
			return true
		}
	}
	return false
}
