package service_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

func reportOf(t *testing.T, s *service.Service, query string, status int) (report service.Report) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, service.URL+query, nil))
	if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil || w.Code != status {
		t.Fatalf("%s: %d %s (%v)", query, w.Code, w.Body, err)
	}
	return report
}

func TestUnknownServices(t *testing.T) {
	headless := webService()
	headless.Name, headless.ClusterIp, headless.ClusterIps, headless.ExternalIps, headless.LbIngressIps = "none", "None", []string{"None"}, nil, nil
	named, others, none := proto.CloneOf(headless), webService(), proto.CloneOf(headless)
	named.Name, named.ServiceType, named.ClusterIp = "named", "ExternalName", ""
	others.Name, others.Labels = "others", map[string]string{"service.kubernetes.io/service-proxy-name": "somebody"}
	none.Name, none.ClusterIp, none.ClusterIps = "without", "", nil
	unnamed, labelled := proto.CloneOf(others), proto.CloneOf(others)
	unnamed.Name, unnamed.Labels = "unnamed", map[string]string{"service.kubernetes.io/service-proxy-name": ""}
	labelled.Name, labelled.Labels = "labelled", map[string]string{"service.kubernetes.io/headless": ""}
	for _, c := range []struct{ settings, name, want string }{
		{"services: vswitch", "default/wbe", `service "default/wbe" not found: did you mean "default/web"?`},
		{"services: vswitch", "payments", `service "payments" not found: use NAMESPACE/NAME`},
		{"services: vswitch", "default/none", `service "default/none" has no address to translate: it is headless: DNS returns the addresses of its pods`},
		{"services: vswitch", "default/named", `service "default/named" has no address to translate: it is of type ExternalName: DNS gives clients another name`},
		{"services: vswitch", "default/others", `service "default/others" has no address to translate: its label service.kubernetes.io/service-proxy-name leaves it to somebody`},
		{"services: vswitch", "default/unnamed", `service "default/unnamed" has no address to translate: its label service.kubernetes.io/service-proxy-name leaves it to another proxy`},
		{"services: vswitch", "default/labelled", `service "default/labelled" has no address to translate: its label service.kubernetes.io/headless excludes it from translation`},
		{"services: vswitch", "default/without", `service "default/without" has no address to translate: it has no cluster IP yet`},
		{"services: kube-proxy", "default/web", `services are left to kube-proxy on this node, so "default/web" is unknown`},
	} {
		s := newCluster().plugin(t, c.settings)
		resync(t, s, state(webService(), webSlice("a", "10.1.1.2@node1"), headless, named, others, none, unnamed, labelled))
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, service.URL+"?service="+c.name, nil))
		var answer struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusNotFound || !strings.HasPrefix(answer.Error, c.want) {
			t.Errorf("%s, %s: %d %s (%v)", c.settings, c.name, w.Code, w.Body, err)
		}
	}
}

func TestReportTellsOfAllServicesOrAllOfOne(t *testing.T) {
	s := newCluster().plugin(t, "services: vswitch")
	resync(t, s, state(webService(), webSlice("a", "10.1.1.2@node1", "10.1.2.2@node2"), webSlice("b", "fd10:0:0:2::2@node2")))
	get := func(query string, status int) service.Report {
		t.Helper()
		return reportOf(t, s, query, status)
	}
	all := get("", http.StatusOK)
	if len(all.Services) != 1 || all.Services[0].Endpoints != 3 || len(all.Services[0].Details) > 0 || len(all.Services[0].Values) != 2 || !all.Translator.VSwitch {
		t.Errorf("all: %+v", all)
	}
	one := get("?service=default/web", http.StatusOK)
	if len(one.Services) != 1 || len(one.Services[0].Details) != 3 || len(one.Services[0].Frontends) != 5 {
		t.Errorf("one: %+v", one)
	}
	if details := get("?verbose=", http.StatusOK); !cmp.Equal(details, one) {
		t.Errorf("all of all: %s", cmp.Diff(one, details))
	}
	get("?service=default/other", http.StatusNotFound)
	for _, addr := range []string{"10.1.2.2", "fd10:0:0:2::2"} {
		of := get("?endpoint="+addr, http.StatusOK)
		if len(of.Services) != 1 || len(of.Services[0].Details) != 1 || !strings.Contains(of.Services[0].Details[0].Address, addr) {
			t.Errorf("of %s: %+v", addr, of)
		}
	}
	if of := get("?endpoint=10.1.2.3", http.StatusOK); len(of.Services) != 0 {
		t.Errorf("of another address: %+v", of)
	}
	get("?endpoint=web", http.StatusBadRequest)
}
