package listener

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// serverConfig returns nil without TLS.
func (o Options) serverConfig() (*tls.Config, error) {
	switch {
	case o.CertFile == "" && o.KeyFile == "" && o.ClientCAFile == "":
		return nil, nil
	case o.CertFile == "" || o.KeyFile == "":
		return nil, errors.New("TLS needs a certificate and its key: give both --tls-cert-file and --tls-key-file")
	}
	f := &files{options: o}
	current, err := f.config()
	if err != nil {
		return nil, err
	}
	config := current.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.config() }
	return config, nil
}

// files caches the TLS configuration of the files.
type files struct {
	options Options

	mu      sync.Mutex
	current *tls.Config
	stamps  [3]stamp
}

// stamp identifies a version of a file.
type stamp struct {
	modified time.Time
	size     int64
}

// config returns the configuration of the present files. If they are invalid, e.g. while
// certificate and key are being replaced, it returns the previous one.
func (f *files) config() (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stamps := [3]stamp{stampOf(f.options.CertFile), stampOf(f.options.KeyFile), stampOf(f.options.ClientCAFile)}
	if f.current != nil && stamps == f.stamps {
		return f.current, nil
	}
	config, err := f.options.load()
	switch {
	case err == nil:
		f.current, f.stamps = config, stamps
	case f.current == nil:
		return nil, err
	default:
		slog.Warn("Loading new TLS certificates failed, keeping the old ones", "error", err)
	}
	return f.current, nil
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

func (o Options) load() (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-file and --tls-key-file: %w", err)
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if o.ClientCAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(o.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-client-ca-file: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-client-ca-file %s contains no PEM certificate", o.ClientCAFile)
	}
	return config, nil
}
