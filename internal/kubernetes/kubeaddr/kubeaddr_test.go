package kubeaddr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
)

func TestParseAddr(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.2.4": "10.1.2.4", "010.001.002.004": "10.1.2.4", "0010.1.2.08": "10.1.2.8", "000.000.000.000": "0.0.0.0",
		"::ffff:10.1.2.4": "10.1.2.4", "::ffff:a01:204": "10.1.2.4", "::FFFF:010.001.002.004": "10.1.2.4", "0:0:0:0:0:ffff:a01:204": "10.1.2.4",
		"::10.1.2.4": "::a01:204", "fd00::1": "fd00::1", "FD00:0:0:0:0:0:0:1": "fd00::1", "fd00::00001": "fd00::1", "2001:0db8::0010": "2001:db8::10",
		"": "", " 10.1.2.4": "", "10.1.2": "", "10.1.2.256": "", "10.1.2.4.5": "", "0x0a.1.2.4": "", "10.1.2.-4": "", "10.1.2.4/32": "", "fe80::1%eth0": "", "web": "", "None": "",
		"::ffff:10.1.2.256": "", "1:2:3:4:5:6:7:8:9": "",
	} {
		got, err := kubeaddr.ParseAddr(text)
		if err == nil != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v, want %q", text, got, err, want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), fmt.Sprintf("%q is no IP address: write", text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParseNetwork(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.2.0/24": "10.1.2.0/24", "10.1.2.4/24": "10.1.2.0/24", "010.001.002.004/032": "10.1.2.4/32", "0.0.0.0/0": "0.0.0.0/0", "1.2.3.4/0": "0.0.0.0/0",
		"::ffff:10.1.2.4/128": "10.1.2.4/32", "::ffff:10.1.2.4/120": "10.1.2.0/24", "::ffff:a01:205/128": "10.1.2.5/32", "::ffff:0:0/96": "0.0.0.0/0",
		"::ffff:10.1.2.4/95": "::fffe:0:0/95", "::ffff:10.1.2.4/64": "::/64", "::/0": "::/0", "fd00::1:2/112": "fd00::1:0/112", "FD00::/08": "fd00::/8",
		"": "", "10.1.2.4": "", "10.1.2.4/33": "", "10.1.2.4/-1": "", "10.1.2.4/": "", "::/129": "", "10.1.2/24": "", " 10.0.0.0/8": "", "10.0.0.0/8 ": "", "fe80::1%eth0/64": "",
		"10.1.2.4/255.255.255.0": "", "web/24": "",
	} {
		got, err := kubeaddr.ParseNetwork(text)
		if err == nil != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v, want %q", text, got, err, want)
		}
		if err == nil && got != got.Masked() {
			t.Errorf("%q: %v has host bits", text, got)
		}
	}
}

func TestParseAddrs(t *testing.T) {
	if got := fmt.Sprint(kubeaddr.ParseAddrs("10.1.2.4", "", "x", "::ffff:10.1.2.4", "fd00::1", "010.1.2.5")); got != "[10.1.2.4 fd00::1 10.1.2.5]" {
		t.Error(got)
	}
}
