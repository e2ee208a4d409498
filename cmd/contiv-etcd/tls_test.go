package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/test/loopback"
)

// certificates creates ca.pem, server.pem, client.pem and their keys. The server's certificate has
// a name but no address.
func certificates(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	write := func(name, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		}
	}
	ca, caKey := template("ca"), newKey()
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	for name, key := range map[string]*ecdsa.PrivateKey{"ca": caKey, "server": newKey(), "client": newKey()} {
		cert := ca
		if name != "ca" {
			cert = template("contiv-" + name)
		}
		der, err := x509.CreateCertificate(rand.Reader, cert, ca, key.Public(), caKey)
		if err != nil {
			t.Fatal(err)
		}
		write(name+".pem", "CERTIFICATE", der)
		if der, err = x509.MarshalECPrivateKey(key); err != nil {
			t.Fatal(err)
		}
		write(name+"-key.pem", "EC PRIVATE KEY", der)
	}
	return dir
}

func TestClientsAndServerKnowEachOtherByCertificate(t *testing.T) {
	certs := certificates(t)
	file := func(name string) string { return filepath.Join(certs, name) }
	health := "http://" + loopback.Address()
	p := startWith(t, filepath.Join(t.TempDir(), "data"), "--listen-client", "https://127.0.0.1:0", "--listen-health", health,
		"--cert-file", file("server.pem"), "--key-file", file("server-key.pem"), "--client-ca-file", file("ca.pem"))
	u, err := url.Parse(p.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOST_IP", u.Hostname())
	good := etcd.Config{
		Endpoints: []string{"https://${HOST_IP}:" + u.Port()}, ServerName: "contiv-server",
		CAFile: file("ca.pem"), CertFile: file("client.pem"), KeyFile: file("client-key.pem"),
	}
	for name, test := range map[string]struct {
		change func(*etcd.Config)
		works  bool
	}{
		"as it should be":     {func(*etcd.Config) {}, true},
		"another server name": {func(c *etcd.Config) { c.ServerName = "other" }, false},
		"name of the address": {func(c *etcd.Config) { c.ServerName = "" }, false},
		"no certificate":      {func(c *etcd.Config) { c.CertFile, c.KeyFile = "", "" }, false},
		"another authority":   {func(c *etcd.Config) { c.CAFile = filepath.Join(certificates(t), "ca.pem") }, false},
		"without TLS":         {func(c *etcd.Config) { *c = etcd.Config{Endpoints: []string{"http://" + u.Host}} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			test.change(&c)
			c.OperationTimeout = config.Duration(time.Second)
			s, err := etcd.New(c)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.Put(t.Context(), "/k", []byte("v")); (err == nil) != test.works {
				t.Errorf("write: %v", err)
			}
		})
	}
	for _, path := range []string{"/livez", "/readyz"} {
		response, err := http.Get(health + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if log := fmt.Sprint(p.stderr); strings.Contains(log, "everybody") {
		t.Errorf("log: %s", log)
	}
}
