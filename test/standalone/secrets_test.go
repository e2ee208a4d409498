package standalone

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/rpc"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_ipsec "github.com/contiv/contiv/api/ligato/vpp/ipsec"
)

// canary is a secret that must not be visible to unauthorised readers.
const canary = "CanaryCanaryCanaryCanaryCanaryCa" // the length of a key

// Secrets of values are in no log, history, dump or error, whether the values succeed or fail.
func TestSecretsAreNowhere(t *testing.T) {
	s := newSite(t, "--log-level", "DEBUG")
	s.start()
	key := base64.StdEncoding.EncodeToString([]byte(canary))
	wireguard := func(name, key string) *vpp_interfaces.Interface {
		return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_WIREGUARD_TUNNEL, Enabled: true, Link: &vpp_interfaces.Interface_Wireguard{
			Wireguard: &vpp_interfaces.WireguardLink{PrivateKey: key, Port: 51820, SrcAddr: "127.0.0.1"},
		}}
	}
	values := &rpc.DataRequest{
		Interfaces: []*vpp_interfaces.Interface{
			wireguard("wg", key), wireguard("wg-bad", canary+"%"),
			{Name: "memif", Type: vpp_interfaces.Interface_MEMIF, Enabled: true, Link: &vpp_interfaces.Interface_Memif{Memif: &vpp_interfaces.MemifLink{SocketFilename: "/run/m.sock", Secret: canary}}},
		},
		SAs: []*vpp_ipsec.SecurityAssociation{
			{Index: 1, Spi: 1001, CryptoAlg: vpp_ipsec.CryptoAlg_AES_CBC_256, CryptoKey: canary, IntegAlg: vpp_ipsec.IntegAlg_SHA1_96, IntegKey: canary},
		},
	}
	look := func(where, text string) {
		t.Helper()
		for _, secret := range []string{canary, key, strings.TrimRight(key, "=")} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s contains a secret: …%s…", where, text[max(0, i-200):min(len(text), i+100)])
				return
			}
		}
	}
	put := func() {
		if _, err := s.change().Put(t.Context(), values); err != nil {
			look("the error of a call", err.Error())
		}
	}
	put()
	values.Interfaces[2].Enabled = false // an update is recorded with both versions
	put()

	client := s.rest()
	get := func(path string) string {
		response, err := client.Get("http://agent" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, response.Status, err)
		}
		return string(body)
	}
	memif := url.QueryEscape("config/vpp/v2/interfaces/memif")
	seen := get("/scheduler/txn-history?format=json")
	if !strings.Contains(seen, "redacted") {
		t.Errorf("the history has no secret that is left out: is the test right? %s", seen)
	}
	for _, path := range []string{
		"/scheduler/txn-history?format=json", "/scheduler/txn-history?format=text", "/scheduler/txn-history?format=diagram&seq-num=1",
		"/scheduler/dump?view=NB", "/scheduler/dump?view=SB", "/scheduler/dump?view=cached", "/scheduler/status", "/scheduler/explain?key=" + memif,
		"/scheduler/key-timeline?key=" + memif, "/scheduler/graph-snapshot", "/scheduler/graph?format=dot",
		"/controller/event-history", "/controller/contributions?key=" + memif, "/readiness?verbose", "/metrics",
	} {
		look(path, get(path))
	}
	look("the log", s.log.String())
	s.stop()
	look("the log of the end", s.log.String())
	s.start()
	look("the log of a restart", s.log.String())
}
