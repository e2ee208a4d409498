package listener_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/listener/listenertest"
)

func TestUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "s")
	first, err := listener.Unix(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}
	if _, err := listener.Unix(path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("socket in use: %v", err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, err := listener.Options{}.Listen("unix://" + path)
	if err != nil {
		t.Fatalf("stale socket is not replaced: %v", err)
	}
	second.Close()
}

func TestRemoteAccess(t *testing.T) {
	a := listenertest.NewAuthority(t)
	cert, key := a.Issue("server")
	encrypted := listener.Options{CertFile: cert, KeyFile: key}
	authenticated := encrypted
	authenticated.ClientCAFile = a.CAFile()
	for _, test := range []struct {
		address string
		options listener.Options
		refused bool
	}{
		{"127.0.0.1:0", listener.Options{}, false},
		{"localhost:0", listener.Options{}, false},
		{"0.0.0.0:0", listener.Options{}, true},
		{":0", listener.Options{}, true},
		{"0.0.0.0:0", encrypted, true},
		{"0.0.0.0:0", authenticated, false},
		{"0.0.0.0:0", listener.Options{AllowUnauthenticated: true}, false},
	} {
		l, err := test.options.Listen(test.address)
		if err == nil {
			l.Close()
		}
		if test.refused != errors.Is(err, listener.ErrUnauthenticated) || !test.refused && err != nil {
			t.Errorf("%s, %+v: %v", test.address, test.options, err)
		}
		l, err = test.options.ListenTrusted(test.address)
		if err == nil {
			l.Close()
		}
		open := test.options.ClientCAFile == "" && !test.options.AllowUnauthenticated
		if open != errors.Is(err, listener.ErrUnauthenticated) || !open && err != nil {
			t.Errorf("ListenTrusted(%s), %+v: %v", test.address, test.options, err)
		}
	}
}

func TestWrongFiles(t *testing.T) {
	a := listenertest.NewAuthority(t)
	cert, key := a.Issue("server")
	_, other := a.Issue("other")
	for want, o := range map[string]listener.Options{
		"--tls-key-file":                     {CertFile: cert},
		"--tls-cert-file":                    {ClientCAFile: a.CAFile()},
		"private key does not match":         {CertFile: cert, KeyFile: other},
		"no such file":                       {CertFile: cert, KeyFile: key, ClientCAFile: "missing"},
		key + " contains no PEM certificate": {CertFile: cert, KeyFile: key, ClientCAFile: key},
	} {
		l, err := o.Listen("127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// greeter greets accepted clients.
func greeter(t *testing.T, o listener.Options) net.Addr {
	t.Helper()
	l, err := o.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "hello")
			conn.Close()
		}
	}()
	return l.Addr()
}

func greeting(t *testing.T, addr net.Addr, config *tls.Config) (text string, server string, err error) {
	t.Helper()
	conn, err := tls.Dial(addr.Network(), addr.String(), config)
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(conn)
	return string(data), conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), err
}

func TestClientCertificates(t *testing.T) {
	ours, strangers := listenertest.NewAuthority(t), listenertest.NewAuthority(t)
	cert, key := ours.Issue("server")
	addr := greeter(t, listener.Options{CertFile: cert, KeyFile: key, ClientCAFile: ours.CAFile()})
	if text, _, err := greeting(t, addr, ours.Client("client")); text != "hello" || err != nil {
		t.Errorf("a client with a certificate is not let in: %q, %v", text, err)
	}
	if text, _, err := greeting(t, addr, ours.Client("")); text != "" || err == nil {
		t.Errorf("a client without a certificate gets %q, %v", text, err)
	}
	stranger := ours.Client("")
	stranger.Certificates = strangers.Client("client").Certificates
	if text, _, err := greeting(t, addr, stranger); text != "" || err == nil {
		t.Errorf("a client of another authority gets %q, %v", text, err)
	}
	plain, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	io.WriteString(plain, "GET / HTTP/1.0\r\n\r\n")
	if data, _ := io.ReadAll(plain); strings.Contains(string(data), "hello") {
		t.Errorf("a client without TLS gets %q", data)
	}
}

func TestCertificatesAreReplacedWhileRunning(t *testing.T) {
	a := listenertest.NewAuthority(t)
	cert, key := a.Issue("server")
	addr := greeter(t, listener.Options{CertFile: cert, KeyFile: key})
	_, first, err := greeting(t, addr, a.Client(""))
	if err != nil {
		t.Fatal(err)
	}
	// Half replaced: the old pair stays in use.
	old, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, serial, err := greeting(t, addr, a.Client("")); serial != first || err != nil {
		t.Errorf("half replaced: certificate %s, %v", serial, err)
	}
	if err := os.WriteFile(key, old, 0o600); err != nil {
		t.Fatal(err)
	}
	a.Issue("server")
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(cert, later, later); err != nil {
		t.Fatal(err)
	}
	if _, serial, err := greeting(t, addr, a.Client("")); serial == first || err != nil {
		t.Errorf("replaced: still certificate %s, %v", serial, err)
	}
}
