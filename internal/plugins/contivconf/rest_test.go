package contivconf_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
)

func TestReport(t *testing.T) {
	ask := func(c *contivconf.ContivConf, method string) (int, string) {
		w := httptest.NewRecorder()
		c.Handler().ServeHTTP(w, httptest.NewRequest(method, contivconf.URL, nil))
		return w.Code, w.Body.String()
	}
	p := start(t, withFile, twoNICs, additional)
	p.put(&nodeconfig.NodeConfig{Gateway: "x"})
	status, body := ask(p.ContivConf, http.MethodGet)
	var report any
	if err := json.Unmarshal([]byte(body), &report); err != nil || status != http.StatusOK {
		t.Fatalf("%d %v: %s", status, err, body)
	}
	compact, _ := json.Marshal(report)
	want := `{"gateways":["10.50.0.254"],"mainInterface":{"ips":[],"linkIPs":["192.168.1.5/24"],"name":"eth0"},"natExternalTraffic":false,` +
		`"nodeName":"node1","otherInterfaces":[{"ips":["10.50.0.1/24"],"name":"eth1"}],` +
		`"refused":"NodeConfig of node node1: option nodeConfig.gateway is \"x\": use an IP address, or one of each IP version, separated by a comma","source":"NodeConfig"}`
	if string(compact) != want {
		t.Errorf("got  %s\nwant %s", compact, want)
	}
	if status, _ := ask(p.ContivConf, http.MethodPost); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
	early, err := contivconf.New("node1", load(t, ""), contivconf.Sources{Links: twoNICs}, nil, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if status, body := ask(early, http.MethodGet); status != http.StatusServiceUnavailable || !strings.Contains(body, "before the startup resync") {
		t.Errorf("before the startup resync: %d %s", status, body)
	}
}
