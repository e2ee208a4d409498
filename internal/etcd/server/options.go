package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

const (
	DefaultDataDir      = "/var/etcd/contiv-data"
	DefaultName         = "contiv-etcd"
	DefaultClientURL    = "http://127.0.0.1:12379"
	DefaultQuota        = int64(2) << 30
	DefaultCompactAfter = time.Hour
	DefaultReadyTimeout = time.Minute
	DefaultSnapshotKeep = 7
)

// Options of a Server. The zero value serves DefaultDataDir on DefaultClientURL.
type Options struct {
	// DataDir holds the data. It is created if missing.
	DataDir string
	// ClientURLs to listen on: http://IP:PORT, https://IP:PORT or unix:///path/of/socket. Port 0
	// selects a free port.
	ClientURLs []string
	// PeerURL, http://IP:PORT, is unused without Members but required by etcd. The default is
	// loopback and the port after the first TCP client URL. If clients need certificates, it
	// becomes https and only admits the server's own certificate, because peers can write.
	PeerURL string
	// Name is this member's name (default DefaultName). Members holds the peer URLs,
	// https://IP:PORT, of all members by name, including this one; without it, the member is alone.
	// Members authenticate with certificates signed by ClientCAFile, with the same common name as
	// CertFile. Both options only matter when the data directory is created.
	Name    string
	Members map[string]string
	// HealthURL, http://IP:PORT, serves /livez, /readyz and /metrics without TLS, so that probes
	// need no certificate. Default: none.
	HealthURL string

	// CertFile and KeyFile are the server certificate of https URLs. With ClientCAFile, clients
	// must present a certificate signed by it.
	CertFile, KeyFile, ClientCAFile string
	// Users makes the common name of a client's certificate its user. Root may do everything, other
	// users what their roles permit, and unknown clients nothing. It requires ClientCAFile and is
	// permanent.
	Users bool
	// Owner returns the user to charge for a key that existed at the start or was written by Root,
	// or "". If nil, such keys count for no user. Limits bound each user except Root. Both require
	// Users.
	Owner  func(key string) string
	Limits Limits
	// PlainText allows http on other addresses than loopback. Everyone who reaches them can read
	// and change all data.
	PlainText bool

	// Quota is the size in bytes at which etcd refuses writes.
	Quota int64
	// CompactAfter is the age at which old revisions are compacted. A watcher that was disconnected
	// for longer must list again.
	CompactAfter time.Duration
	// SnapshotEvery is the interval of snapshots in SnapshotDir (0: none). SnapshotKeep is the
	// number to keep.
	SnapshotEvery time.Duration
	SnapshotDir   string
	SnapshotKeep  int
	// ReadyTimeout bounds Start.
	ReadyTimeout time.Duration
	// UnsafeNoSync skips fsync. It is for tests.
	UnsafeNoSync bool

	// Logger also receives etcd's log. Default: slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.DataDir == "" {
		o.DataDir = DefaultDataDir
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	if len(o.Members) > 0 && o.PeerURL == "" {
		o.PeerURL = o.Members[o.Name]
	}
	if len(o.ClientURLs) == 0 {
		o.ClientURLs = []string{DefaultClientURL}
	}
	if o.Quota == 0 {
		o.Quota = DefaultQuota
	}
	o.Limits = Limits{
		Bytes: cmp.Or(o.Limits.Bytes, o.Quota/defaultUserPart), Keys: cmp.Or(o.Limits.Keys, DefaultUserKeys),
		Leases: cmp.Or(o.Limits.Leases, DefaultUserLeases), Watches: cmp.Or(o.Limits.Watches, DefaultUserWatches),
	}
	if o.Owner == nil {
		o.Owner = func(string) string { return "" }
	}
	if o.CompactAfter == 0 {
		o.CompactAfter = DefaultCompactAfter
	}
	if o.SnapshotKeep == 0 {
		o.SnapshotKeep = DefaultSnapshotKeep
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = DefaultReadyTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// knowsClients reports whether clients need certificates.
func (o Options) knowsClients() bool { return o.CertFile != "" && o.ClientCAFile != "" }

type endpoints struct {
	clients []url.URL
	peer    url.URL
	health  []url.URL // at most one
}

func (o Options) resolve() (endpoints, error) {
	var e endpoints
	if (o.CertFile == "") != (o.KeyFile == "") {
		return e, errors.New("set both the certificate and its key, or neither")
	}
	if o.SnapshotEvery < 0 || o.SnapshotKeep < 1 {
		return e, fmt.Errorf("snapshots every %v, keeping %d: use a positive duration, and keep at least one", o.SnapshotEvery, o.SnapshotKeep)
	}
	if o.SnapshotEvery > 0 && o.SnapshotDir == "" {
		return e, errors.New("snapshots need a directory: set --snapshot-dir")
	}
	if err := o.checkMembers(); err != nil {
		return e, err
	}
	if o.Limits.Bytes < 0 || o.Limits.Keys < 0 || o.Limits.Leases < 0 || o.Limits.Watches < 0 {
		return e, errors.New("limits of users must be positive; 0: the default")
	}
	if o.Users && o.ClientCAFile == "" {
		return e, errors.New("--users requires client certificates: set --client-ca-file")
	}
	peerPort := 0
	for _, s := range o.ClientURLs {
		u, err := parseURL("client URL", s)
		if err != nil {
			return e, err
		}
		if u.Scheme == "https" && o.CertFile == "" {
			return e, fmt.Errorf("client URL %q: https requires a certificate and its key", s)
		}
		if u.Scheme == "http" && !isLoopback(u.Hostname()) && !o.PlainText {
			return e, fmt.Errorf("client URL %q: anyone who can reach this address could read and change all data: use https with a client CA, a loopback address or a unix socket, or allow it with --plain-text", s)
		}
		anyPort := u.Port() == "0"
		if err := fillPort(&u); err != nil {
			return e, fmt.Errorf("client URL %q: %w", s, err)
		}
		if peerPort == 0 && u.Scheme != "unix" && !anyPort {
			peerPort, _ = strconv.Atoi(u.Port())
			peerPort = (peerPort + 1) % 65536
		}
		e.clients = append(e.clients, u)
	}

	peer := o.PeerURL
	if peer == "" {
		peer = fmt.Sprintf("http://127.0.0.1:%d", peerPort)
	}
	u, err := parseURL("peer URL", peer)
	if err != nil {
		return e, err
	}
	if len(o.Members) == 0 {
		if u.Scheme == "unix" || !isLoopback(u.Hostname()) {
			return e, fmt.Errorf("peer URL %q: this etcd has no other member: use http with a loopback address", peer)
		}
		u.Scheme = "http"
		if o.knowsClients() {
			u.Scheme = "https"
		}
	}
	if err := fillPort(&u); err != nil {
		return e, fmt.Errorf("peer URL %q: %w", peer, err)
	}
	e.peer = u
	if o.HealthURL != "" {
		u, err := parseURL("health URL", o.HealthURL)
		if err != nil {
			return e, err
		}
		if u.Scheme != "http" {
			return e, fmt.Errorf("health URL %q: the scheme must be http", o.HealthURL)
		}
		if err := fillPort(&u); err != nil {
			return e, fmt.Errorf("health URL %q: %w", o.HealthURL, err)
		}
		e.health = []url.URL{u}
	}
	return e, nil
}

func (o Options) checkMembers() error {
	if len(o.Members) == 0 {
		return nil
	}
	if o.Members[o.Name] == "" {
		return fmt.Errorf("member %q is not among the members: add its --member %s=https://IP:PORT, or correct --name", o.Name, o.Name)
	}
	for name, s := range o.Members {
		u, err := parseURL("URL of member "+name, s)
		if err != nil {
			return err
		}
		if u.Scheme != "https" || u.Port() == "0" {
			return fmt.Errorf("URL of member %s, %q: give it the form https://IP:PORT", name, s)
		}
	}
	return nil
}

func parseURL(what, s string) (url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return url.URL{}, fmt.Errorf("%s: %w", what, err)
	}
	switch u.Scheme {
	case "http", "https":
		host, port, err := net.SplitHostPort(u.Host)
		if err != nil || port == "" {
			return url.URL{}, fmt.Errorf("%s %q: give it the form %s://IP:PORT", what, s, u.Scheme)
		}
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
			return url.URL{}, fmt.Errorf("%s %q: %q is no IP address: names cannot be listened on", what, s, host)
		}
		if u.Path != "" {
			return url.URL{}, fmt.Errorf("%s %q: drop the path %q", what, s, u.Path)
		}
	case "unix":
		if u.Host != "" || u.Path == "" {
			return url.URL{}, fmt.Errorf("%s %q: give the absolute path of the socket, unix:///PATH", what, s)
		}
	default:
		return url.URL{}, fmt.Errorf("%s %q: the scheme must be http, https or unix", what, s)
	}
	return *u, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

// fillPort replaces port 0 by a port that is currently free.
func fillPort(u *url.URL) error {
	if u.Port() != "0" {
		return nil
	}
	l, err := net.Listen("tcp", u.Host)
	if err != nil {
		return err
	}
	u.Host = l.Addr().String()
	return l.Close()
}
