package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/test/loopback"
)

// probe reports why a client cannot connect.
func TestProbe(t *testing.T) {
	refused := loopback.Address()
	silent := listen(t)
	hangsUp := listen(t)
	go func() {
		for {
			conn, err := hangsUp.Accept()
			if err != nil {
				return
			}
			var b [1]byte
			conn.Read(b[:])
			conn.Close()
		}
	}()
	plain := listen(t)
	go func() {
		conn, err := plain.Accept()
		if err == nil {
			conn.Write([]byte("no TLS here"))
			conn.Close()
		}
	}()
	for name, test := range map[string]struct {
		endpoints []string
		tls       *tls.Config
		want      string
	}{
		"refused":                {[]string{"http://" + refused}, nil, "connection refused"},
		"one of two is there":    {[]string{"http://" + refused, "http://" + silent.Addr().String()}, nil, ""},
		"connected":              {[]string{"http://" + silent.Addr().String()}, nil, ""},
		"a socket is not probed": {[]string{"unix:///nowhere"}, nil, ""},
		"the server wants TLS":   {[]string{"http://" + hangsUp.Addr().String()}, nil, "may require TLS"},
		"the server has no TLS":  {[]string{"https://" + plain.Addr().String()}, &tls.Config{RootCAs: x509.NewCertPool()}, "first record does not look like a TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&Store{endpoints: test.endpoints, tls: test.tls}).probe(t.Context())
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// A refusal counts as an answer.
func TestWatchOfEtcdThatRefuses(t *testing.T) {
	s, err := New(Config{Endpoints: []string{"http://" + loopback.Address()}, OperationTimeout: config.Duration(200 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Watch(t.Context(), 0, "/x/")
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("%v", err)
	}
}
