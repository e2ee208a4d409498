package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/listener/listenertest"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
)

// Any client with a certificate, even without a role, gets the metrics and nothing else. A program
// that starts before its certificate exists serves them later.
func TestMetricsFromElsewhere(t *testing.T) {
	authority := listenertest.NewAuthority(t)
	cert, key := authority.Issue("server")
	late := filepath.Join(t.TempDir(), "tls.crt")
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "contiv_some"}))
	logged, log := io.Pipe()
	e := Endpoint{
		Addresses: []string{"127.0.0.1:0"},
		Listener:  listener.Options{CertFile: late, KeyFile: key, ClientCAFile: authority.CAFile()},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- e.Run(ctx, registry, slog.New(slog.NewTextHandler(log, nil)), 10*time.Millisecond)
		log.Close()
	}()
	t.Cleanup(func() {
		cancel()
		go io.Copy(io.Discard, logged)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line := make([]byte, 4096)
	next := func() string {
		n, err := logged.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		return string(line[:n])
	}
	if text := next(); !strings.Contains(text, "Serving metrics failed") || !strings.Contains(text, late) {
		t.Errorf("logged: %s", text)
	}
	data, err := os.ReadFile(cert)
	if err == nil {
		err = os.WriteFile(late, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var address []string
	for address == nil {
		address = regexp.MustCompile(`Serving metrics.*addresses=\[(.*)\]`).FindStringSubmatch(next())
	}
	get := func(path string, certified bool) (int, string) {
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		ca, err := os.ReadFile(authority.CAFile())
		if err != nil || !config.RootCAs.AppendCertsFromPEM(ca) {
			t.Fatalf("authority: %v", err)
		}
		if certified {
			pair, err := tls.LoadX509KeyPair(authority.Issue("prometheus"))
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		response, err := client.Get("https://" + address[1] + path)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if status, text := get("/metrics", true); status != http.StatusOK || !strings.Contains(text, "contiv_some 0") {
		t.Errorf("metrics: %d %s", status, text)
	}
	if status, _ := get("/scheduler/dump", true); status != http.StatusForbidden && status != http.StatusNotFound {
		t.Errorf("something else: %d", status)
	}
	if status, text := get("/metrics", false); status != 0 {
		t.Errorf("without a certificate: %d %s", status, text)
	}
}

func TestMetricsNeedCertificates(t *testing.T) {
	var e Endpoint
	flags := pflag.NewFlagSet("contiv", pflag.ContinueOnError)
	e.Flags(flags)
	if err := flags.Parse([]string{"--metrics=:9998"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Check(); err == nil || !strings.Contains(err.Error(), "--metrics-client-ca-file") {
		t.Errorf("%v", err)
	}
	if err := new(Endpoint).Check(); err != nil {
		t.Errorf("without addresses: %v", err)
	}
}
