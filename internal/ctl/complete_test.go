package ctl

import (
	"reflect"
	"strings"
	"testing"
)

func TestCompletionOffersNothingThatShellsInterpret(t *testing.T) {
	words := []string{
		"default/web", "vpp/route/vrf/0/dst/10.0.0.0/8/gw/10.1.1.1", "config/vpp/v2/interfaces/$(touch$IFS/tmp/x)a", "config/vpp/v2/interfaces/`id`",
		"a b", "a;b", "a\nb", "~root", "a{1,2}", "a*", "fd00::1/64@eth0",
	}
	want := []string{"default/web", "vpp/route/vrf/0/dst/10.0.0.0/8/gw/10.1.1.1", "fd00::1/64@eth0"}
	if got := safeForShells(words); !reflect.DeepEqual(got, want) {
		t.Errorf("completions %q, want %q", got, want)
	}
}

func TestNamesOfKeysFormNoLines(t *testing.T) {
	const key = "config/vpp/v2/interfaces/esc"
	_, err := meant(printer{}, []string{key + "\nFAKE LINE healthy", key + "2"}, "esc")
	if err == nil || strings.Contains(err.Error(), "\nFAKE") {
		t.Errorf("error %q", err)
	}
}
