package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
)

func startLimited(t *testing.T, args ...string) *process {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	line := fmt.Sprintf("ulimit -n 1024; exec %q --data-dir %q --unsafe-no-fsync %s", os.Args[0], dir, strings.Join(args, " "))
	p := &process{Cmd: exec.Command("sh", "-c", line), stderr: &strings.Builder{}}
	p.Env = append(os.Environ(), "CONTIV_ETCD_TEST_MAIN=1")
	p.Stderr = p.stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	ready, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("contiv-etcd was not ready: %v\n%s", err, p.stderr)
	}
	if _, err := fmt.Sscanf(ready, "contiv-etcd is ready: endpoints=%s data-dir="+dir, &p.endpoint); err != nil {
		t.Fatal(err)
	}
	return p
}

type flood struct {
	stop   chan struct{}
	wg     sync.WaitGroup
	opened chan struct{} // closed after as many connections as the server has descriptors
}

func startFlood(t *testing.T, source, target string, begin []byte) *flood {
	t.Helper()
	f := &flood{stop: make(chan struct{}), opened: make(chan struct{})}
	t.Cleanup(func() { close(f.stop); f.wg.Wait() })
	f.wg.Go(func() {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: time.Second}
		var conns []net.Conn
		defer func() {
			for _, c := range conns {
				c.Close()
			}
		}()
		drip := time.NewTicker(time.Second)
		defer drip.Stop()
		for {
			select {
			case <-f.stop:
				return
			case <-drip.C:
				if begin != nil {
					alive := conns[:0]
					for _, c := range conns {
						if _, err := c.Write(begin[:1]); err != nil {
							c.Close()
							continue
						}
						alive = append(alive, c)
					}
					conns = alive
				}
			default:
			}
			if len(conns) >= 3000 {
				for _, c := range conns[:1000] {
					c.Close()
				}
				conns = append([]net.Conn(nil), conns[1000:]...)
			}
			c, err := dialer.Dial("tcp", target)
			if err != nil {
				time.Sleep(time.Millisecond)
				continue
			}
			c.Write(begin)
			if conns = append(conns, c); len(conns) == 1500 {
				select {
				case <-f.opened:
				default:
					close(f.opened)
				}
			}
		}
	})
	return f
}

func TestConnectionsWithoutCertificateStarveNobody(t *testing.T) {
	certs := certificates(t)
	file := func(name string) string { return filepath.Join(certs, name) }
	p := startLimited(t, "--listen-client", "https://127.0.0.1:0",
		"--cert-file", file("server.pem"), "--key-file", file("server-key.pem"), "--client-ca-file", file("ca.pem"))
	u, err := url.Parse(p.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	connect := func() *etcd.Store {
		s, err := etcd.New(etcd.Config{
			Endpoints: []string{p.endpoint}, ServerName: "contiv-server", OperationTimeout: config.Duration(5 * time.Second),
			CAFile: file("ca.pem"), CertFile: file("client.pem"), KeyFile: file("client-key.pem"),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	before := connect()
	if err := before.Put(t.Context(), "/before", nil); err != nil {
		t.Fatal(err)
	}
	hello := []byte{22, 3, 1, 2, 0, 1, 0, 1, 252} // the start of a ClientHello
	var floods []*flood
	for source, begin := range map[string][]byte{"127.0.0.2": nil, "127.0.0.3": hello, "127.0.0.4": []byte("GET / "), "127.0.0.1": nil} {
		floods = append(floods, startFlood(t, source, u.Host, begin))
	}
	for _, f := range floods {
		select {
		case <-f.opened:
		case <-time.After(time.Minute):
			t.Fatal("the flood did not get its connections")
		}
	}
	for i := range 10 {
		if err := before.Put(t.Context(), "/k", nil); err != nil {
			t.Errorf("a client from before: %v", err)
		}
		if err := connect().Put(t.Context(), "/k", nil); err != nil {
			t.Errorf("new client %d: %v", i, err)
		}
	}
}

func TestHandshakeTimesOut(t *testing.T) {
	t.Parallel()
	certs := certificates(t)
	file := func(name string) string { return filepath.Join(certs, name) }
	p := startWith(t, filepath.Join(t.TempDir(), "data"), "--listen-client", "https://127.0.0.1:0",
		"--cert-file", file("server.pem"), "--key-file", file("server-key.pem"), "--client-ca-file", file("ca.pem"))
	u, _ := url.Parse(p.endpoint)
	pair, err := tls.LoadX509KeyPair(file("client.pem"), file("client-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func() (net.Conn, error){
		"silent": func() (net.Conn, error) { return net.Dial("tcp", u.Host) },
		"a byte in each second": func() (net.Conn, error) {
			c, err := net.Dial("tcp", u.Host)
			if err == nil {
				c.Write([]byte{22, 3, 1, 2, 0})
				go func() {
					for {
						time.Sleep(time.Second)
						if _, err := c.Write([]byte{1}); err != nil {
							return
						}
					}
				}()
			}
			return c, err
		},
		"certificate, then nothing": func() (net.Conn, error) {
			c, err := tls.Dial("tcp", u.Host, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			return c, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			begin := time.Now()
			c.SetReadDeadline(begin.Add(20 * time.Second))
			buffer := make([]byte, 1024)
			for err == nil {
				_, err = c.Read(buffer)
			}
			if took := time.Since(begin); took > 8*time.Second {
				t.Errorf("it was closed after %v: %v", took, err)
			}
		})
	}
}
