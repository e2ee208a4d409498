package service_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/config"
)

func TestServicesAreOneValueOfEachIPVersion(t *testing.T) {
	got := plugintest.Render(resync(t, newCluster().plugin(t, "services: vswitch"), state(
		webService(), webSlice("a", "10.1.1.2@node1", "10.1.2.2@node2"), webSlice("b", "fd10:0:0:2::2@node2"))))
	local := `{"local_ip":"10.1.1.2","local_port":8080,"probability":1}`
	both := `"local_ips":[` + local + `,{"elsewhere":true,"local_ip":"10.1.2.2","local_port":8080,"probability":1}]`
	one := `"local_ips":[{"local_ip":"10.1.1.2","local_port":8080}]`
	six := `"local_ips":[{"elsewhere":true,"local_ip":"fd10:0:0:2::2","local_port":8080}]`
	for _, want := range []string{
		`{"external_ip":"10.96.0.10","external_port":80,` + both + `,"masquerade_outside":true,"twice_nat":"SELF"}`,
		`{"clients":"INSIDE","external_ip":"192.168.16.1","external_port":30080,` + both + `,"twice_nat":"SELF"}`,
		`{"clients":"OUTSIDE","external_ip":"192.168.16.1","external_port":30080,` + one + `,"twice_nat":"SELF"}`,
		`{"clients":"OUTSIDE","external_ip":"203.0.113.1","external_port":80,` + one + `,"source_ranges":["198.51.100.0/24"],"twice_nat":"SELF"}`,
		`{"external_ip":"fd96::10","external_port":80,` + six + `,"masquerade_outside":true,"twice_nat":"SELF","twice_nat_ip":"fd10::1:ffff:ffff:ffff:fffe"}`,
		`{"clients":"OUTSIDE","external_ip":"fd00::1","external_port":30080,"otherwise":"DROP"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no mapping\n%s in\n%s", want, got)
		}
	}
	for _, line := range strings.SplitAfter(shared, "\n") {
		if !strings.Contains(got, line) {
			t.Errorf("no %s in\n%s", line, got)
		}
	}
}

func TestServicesAreLeftToOthers(t *testing.T) {
	everything := state(webService(), webSlice("a", "10.1.1.2@node1"))
	c := newCluster()
	if got := resync(t, c.plugin(t, ""), everything); len(got) != 5 {
		t.Errorf("without the option, and without kube-proxy: %v", got)
	}
	s := c.plugin(t, "services: kube-proxy")
	if got := resync(t, s, everything); len(got) > 0 {
		t.Errorf("with services: kube-proxy: %v", got)
	}
	if got := s.Notes(); len(got) != 1 || !strings.Contains(got[0], "nothing of it is on this node") {
		t.Errorf("with services: kube-proxy, and none: notes %q", got)
	}
	for setting, warned := range map[string]bool{"services: auto": false, "services: vswitch": true} {
		c.others = "nftables table kube-proxy"
		s := c.plugin(t, setting)
		if got := resync(t, s, everything); len(got) > 0 {
			t.Errorf("%s, with kube-proxy: %v", setting, got)
		}
		if got := s.Translator(); got.VSwitch || got.OtherProxy != c.others {
			t.Errorf("%s, with kube-proxy: %+v", setting, got)
		}
		if got := s.Warnings(); (len(got) == 1) != warned {
			t.Errorf("%s, with kube-proxy: warnings %q", setting, got)
		}
		since := s.Translator().Since
		note := "left to kube-proxy since " + since.Format("2006-01-02 15:04:05 MST") + ", because of nftables table kube-proxy: if no kube-proxy runs here"
		if got := s.Notes(); (len(got) == 1 && strings.Contains(got[0], note)) == warned {
			t.Errorf("%s, with kube-proxy: notes %q", setting, got)
		}
		resync(t, s, everything)
		if got := s.Translator().Since; since.IsZero() || got != since {
			t.Errorf("%s, with kube-proxy: since %v, and since %v after a resync", setting, since, got)
		}
		c.others = ""
		if got := resync(t, s, everything); len(got) != 5 {
			t.Errorf("%s, without kube-proxy: %v", setting, got)
		}
		if got := s.Translator(); !got.VSwitch || got.OtherProxy != "" || !got.Since.IsZero() || len(s.Warnings()) > 0 || len(s.Notes()) > 0 {
			t.Errorf("%s, without kube-proxy: %+v, warnings %q", setting, got, s.Warnings())
		}
	}
}

// Addresses of the pod network are ignored and reported.
func TestServiceIPsOfPods(t *testing.T) {
	svc := webService()
	svc.LoadbalancerSourceRanges = nil
	svc.ExternalIps = []string{"10.1.2.7", "fd10:0:0:2::7", "203.0.113.7", "255.255.255.255"}
	svc.LbIngressIps = []string{"10.1.1.2", "203.0.113.1"}
	port := []*k8s.Service_ServicePort{{Protocol: "TCP", Port: 80}}
	taking := &k8s.Service{Name: "taking", Namespace: "default", ServiceType: "ClusterIP", ClusterIp: "10.1.2.2", ExternalIps: []string{"203.0.113.8"}, Port: port}
	nothing := &k8s.Service{Name: "nothing", Namespace: "default", ServiceType: "ClusterIP", ClusterIp: "10.1.2.3", Port: port}
	everything := state(svc, webSlice("a", "10.1.1.2@node1"), taking, nothing)
	c := newCluster()
	onVPP, err := c.onVPP(t, "services: vswitch\nexternalIPs: allow\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*service.Service{"kernel": c.plugin(t, "services: vswitch\nexternalIPs: allow"), "VPP": onVPP} {
		got := plugintest.Render(resync(t, s, everything))
		for _, ip := range slices.Concat(svc.ExternalIps, svc.LbIngressIps, []string{taking.ClusterIp}, taking.ExternalIps) {
			if translated := strings.Contains(got, `"external_ip":"`+ip+`"`); translated != strings.HasPrefix(ip, "203.") {
				t.Errorf("%s: %s is translated: %v\n%s", name, ip, translated, got)
			}
		}
		if told := reportOf(t, s, "?service=default/web", http.StatusOK).Services[0].Limits; len(told) != 1 || !strings.HasSuffix(told[0], "so is 255.255.255.255 (10.1.1.2, 10.1.2.7, 255.255.255.255, fd10:0:0:2::7)") {
			t.Errorf("%s: limits %q", name, told)
		}
		if notes := s.Notes(); len(notes) != 1 || !strings.HasSuffix(notes[0], "; services: default/nothing (10.1.2.3), default/taking (10.1.2.2), default/web (10.1.1.2, 10.1.2.7, 255.255.255.255, fd10:0:0:2::7)") {
			t.Errorf("%s: notes %q", name, notes)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, service.URL+"?service=default/nothing", nil))
		if !strings.Contains(w.Body.String(), "[10.1.2.3], of the pod network or for broadcasts, cannot be a service's") {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}

func TestBadServiceConfig(t *testing.T) {
	for text, want := range map[string]string{
		"services: yes please": "kube-proxy", "healthzBindAddress: '10256'": "such as :10256", "healthzBindAddress: 'node1:1'": "no address with a port", "healthzBindAddress: ':0'": "no port from 1",
		"nodePortAddresses: [eth0]": "nodePortAddresses", "serviceLocalEndpointWeight: 0": "1 to 255", "service: vswitch": "services",
		"otherNATSessionTimeout: 65536": "at most 65535", "conntrack: {tcpCloseWaitTimeout: 10ms}": "conntrack.tcpCloseWaitTimeout: 10ms is out of range", "conntrack: {udpTimeout: -1s}": "conntrack.udpTimeout",
		"conntrack: {maxPerCore: 3000000000}": "maxPerCore", "conntrack: {maximum: 1}": "maxPerCore",
	} {
		if _, err := config.Load([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
