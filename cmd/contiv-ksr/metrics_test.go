package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/lib/listener/listenertest"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/loopback"
)

// Prometheus can read the metrics remotely with a certificate. /stats serves them on loopback.
func TestMetricsFromElsewhere(t *testing.T) {
	address := loopback.Address()
	authority := listenertest.NewAuthority(t)
	cert, key := authority.Issue("server")
	p := startProcess(t, etcdtest.Start(t), "--manifests", t.TempDir(), "--metrics", address,
		"--metrics-cert-file", cert, "--metrics-key-file", key, "--metrics-client-ca-file", authority.CAFile())
	p.awaitReady("contiv-ksr is ready")
	prometheus := http.Client{Transport: &http.Transport{TLSClientConfig: authority.Client("prometheus"), DisableKeepAlives: true}}
	await.That(t, "metrics", func() error {
		response, err := prometheus.Get("https://" + address + "/metrics")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && !strings.Contains(string(body), "contiv_ksr_synced{") {
			err = fmt.Errorf("%s: %s", response.Status, body)
		}
		return err
	})
	p.terminate()
}
