package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/e2e"
	"github.com/contiv/contiv/test/lab"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Prometheus, a pod of the cluster, finds agents and KSR by the chart's ServiceMonitors, as its
// operator configures it, and scrapes them. Without certificate it gets nothing, and with one
// nothing else.
func TestPrometheusScrapesWhatServiceMonitorsSelect(t *testing.T) {
	opts := options
	opts.WithoutProxy = false
	s := newSiteWith(t, "p", opts)
	s.kubectl("label", "node", e2e.ControlPlaneNode, "node-role.kubernetes.io/control-plane=")
	s.apply(monitorDefinition)
	s.kubectl("wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com", "--timeout=30s")
	s.metricsSecrets("contiv-metrics", "prometheus-client")
	values := filepath.Join(t.TempDir(), "values.yaml")
	text := "monitoring: {secretName: contiv-metrics, serviceMonitor: {enabled: true, labels: {release: prometheus}, clientSecretName: prometheus-client}}\n"
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(filepath.Join(options.BinDir, "contivctl"), "install", "--post-renderer", s.adapter, "--values", values)
	prometheus := s.podOn("prometheus", "node2")

	var monitors struct{ Items []serviceMonitor }
	if err := s.Get(t.Context(), &monitors, "servicemonitors.monitoring.coreos.com", "-A", "-l", "release=prometheus"); err != nil {
		t.Fatal(err)
	}
	first, want := map[string]string{"contiv-agent": "contiv_build_info{", "contiv-ksr": "contiv_ksr_leading"}, []string{"contiv-agent node1", "contiv-agent node2", "contiv-ksr node1"}
	await.That(t, "all targets are scraped", func() error {
		var scraped []string
		for _, m := range monitors.Items {
			for _, target := range s.targets(m) {
				page, err := target.get(t.Context(), prometheus, target.path, true)
				if err != nil {
					return err
				}
				if metric := first[target.job]; !strings.Contains(page, "\n"+metric) {
					return fmt.Errorf("%s at %s has no metric %q:\n%s", target.job, target.address, metric, page)
				}
				scraped = append(scraped, target.job+" "+target.instance)
			}
		}
		slices.Sort(scraped)
		if diff := cmp.Diff(want, scraped); diff != "" {
			return fmt.Errorf("jobs and instances (-want +scraped):\n%s", diff)
		}
		return nil
	})
	for _, m := range monitors.Items {
		for _, target := range s.targets(m) {
			if page, err := target.get(t.Context(), prometheus, target.path, false); err == nil {
				t.Errorf("%s at %s, without a certificate: %s", target.job, target.address, page)
			}
			for _, path := range []string{"/scheduler/dump", "/contiv/v1/ipam", "/stats"} {
				if page, err := target.get(t.Context(), prometheus, path, true); err == nil {
					t.Errorf("%s at %s serves %s, too: %s", target.job, target.address, path, page)
				}
			}
		}
	}
}

// monitorDefinition is the part of the operator's definition that the API server needs to store a
// ServiceMonitor.
const monitorDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: ServiceMonitor, plural: servicemonitors}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`

// serviceMonitor is the operator's input for a scrape configuration.
type serviceMonitor struct {
	Metadata metav1.ObjectMeta
	Spec     struct {
		Selector  metav1.LabelSelector
		Endpoints []struct {
			Port, Path, Scheme string
			TLSConfig          struct {
				ServerName string
				CA, Cert   struct{ Secret corev1.SecretKeySelector }
				KeySecret  corev1.SecretKeySelector
			}
			Relabelings []struct {
				TargetLabel, Replacement string
				SourceLabels             []string
			}
		}
	}
}

// target is a scraped endpoint.
type target struct {
	job, instance string
	address, path string
	tls           *tls.Config
}

// targets returns the targets of a ServiceMonitor: its selector selects Services, and its ports the
// ports of their endpoints.
func (s *site) targets(m serviceMonitor) (found []target) {
	s.t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
	if err != nil {
		s.t.Fatal(err)
	}
	namespace := m.Metadata.Namespace
	var services corev1.ServiceList
	var endpoints discoveryv1.EndpointSliceList
	if err := errors.Join(
		s.Get(s.t.Context(), &services, "services", "-n", namespace, "-l", selector.String()),
		s.Get(s.t.Context(), &endpoints, "endpointslices", "-n", namespace),
	); err != nil {
		s.t.Fatal(err)
	}
	selected := map[string]bool{}
	for _, service := range services.Items {
		selected[service.Name] = true
	}
	for _, scrape := range m.Spec.Endpoints {
		if scrape.Scheme != "https" {
			s.t.Fatalf("%s scrapes over %s", m.Metadata.Name, scrape.Scheme)
		}
		config := s.tlsConfig(namespace, scrape.TLSConfig.ServerName, scrape.TLSConfig.CA.Secret, scrape.TLSConfig.Cert.Secret, scrape.TLSConfig.KeySecret)
		for _, slice := range endpoints.Items {
			if !selected[slice.Labels[discoveryv1.LabelServiceName]] {
				continue
			}
			for _, port := range slice.Ports {
				if *port.Name != scrape.Port {
					continue
				}
				for _, e := range slice.Endpoints {
					labels := map[string]string{"__meta_kubernetes_pod_node_name": *e.NodeName}
					for _, r := range scrape.Relabelings {
						labels[r.TargetLabel] = r.Replacement
						if len(r.SourceLabels) > 0 {
							labels[r.TargetLabel] = labels[r.SourceLabels[0]]
						}
					}
					found = append(found, target{labels["job"], labels["instance"], net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*port.Port))), scrape.Path, config})
				}
			}
		}
	}
	return found
}

// tlsConfig builds a TLS configuration from keys of Secrets.
func (s *site) tlsConfig(namespace, server string, ca, cert, key corev1.SecretKeySelector) *tls.Config {
	s.t.Helper()
	read := func(k corev1.SecretKeySelector) []byte {
		var secret corev1.Secret
		if err := s.Get(s.t.Context(), &secret, "secret", "-n", namespace, k.Name); err != nil {
			s.t.Fatal(err)
		}
		return secret.Data[k.Key]
	}
	pair, err := tls.X509KeyPair(read(cert), read(key))
	if err != nil {
		s.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(read(ca)) {
		s.t.Fatalf("%s of the Secret %s is no authority", ca.Key, ca.Name)
	}
	return &tls.Config{ServerName: server, Certificates: []tls.Certificate{pair}, RootCAs: roots}
}

// get requests a page from the target, from a pod.
func (t target) get(ctx context.Context, from lab.Endpoint, path string, certificate bool) (string, error) {
	config := t.tls.Clone()
	if !certificate {
		config.Certificates = nil
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: config,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return e2e.Dial(ctx, from.Netns, address)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+t.address+path, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", request.URL, response.Status)
	}
	return string(page), err
}

// metricsSecrets creates the Secrets of docs/operator/monitoring.md: for agents and KSR, and for Prometheus.
func (s *site) metricsSecrets(server, client string) {
	s.t.Helper()
	authority, err := pki.NewAuthority("metrics", time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	served, err1 := authority.IssueServer([]string{"contiv-agent"}, nil, time.Now(), time.Hour)
	asks, err2 := authority.IssueClient("prometheus", time.Now(), time.Hour)
	if err := errors.Join(err1, err2); err != nil {
		s.t.Fatal(err)
	}
	text := base64.StdEncoding.EncodeToString
	for name, pair := range map[string]pki.Pair{server: served, client: asks} {
		s.apply(fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: kube-system}\ndata: {ca.crt: %s, tls.crt: %s, tls.key: %s}\n",
			name, text(authority.Pair().Cert), text(pair.Cert), text(pair.Key)))
	}
}

func (s *site) apply(manifest string) {
	s.t.Helper()
	if _, err := s.KubectlInput(s.t.Context(), strings.NewReader(manifest), "apply", "-f", "-"); err != nil {
		s.t.Fatal(err)
	}
}
