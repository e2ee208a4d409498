package docs

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	p := parse("page", "Text\n\n<!-- run: a one\nb two -->\n```\n$ contivctl nodes  # all\nID  NODE\n1   node1\n\n$ etcdctl put x \\\n  '{\n}'\nOK\n```\n\n    bin/contiv-lab up\n    make x\n\n"+
		"```\nagents:\n  node1: x\n```\n\n    no command\n\n```\nVPP_BIN=x bin/contiv-lab up\netcdctl txn <<'END'\n\nput\n\nEND\n```\n")
	var got []string
	for _, s := range p.steps {
		got = append(got, fmt.Sprintf("%q %q", s.command, p.sample(s)))
	}
	want := []string{
		`"a one" ""`, `"b two" ""`, `"contivctl nodes  # all" "ID  NODE\n1   node1"`, `"etcdctl put x \\\n  '{\n}'" "OK"`,
		`"bin/contiv-lab up" ""`, `"make x" ""`, `"VPP_BIN=x bin/contiv-lab up" ""`, `"etcdctl txn <<'END'\n\nput\n\nEND" ""`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	again := parse("page", p.with(map[int]string{2: "ID\n1\n2\n", 3: "KO"}))
	if got := again.sample(again.steps[2]); got != "ID\n1\n2" {
		t.Errorf("%q", got)
	}
	if got := again.sample(again.steps[3]); got != "KO" || len(again.steps) != len(p.steps) {
		t.Errorf("%q, %d steps", got, len(again.steps))
	}
}

func TestShape(t *testing.T) {
	for _, c := range []struct {
		sample, output string
		same           bool
	}{
		{"NODE   TOOK\nnode1  3.2ms  # quick", "NODE   TOOK\nnode1  17µs", true},
		{"NODE   TOOK\nnode1  3.2ms", "NODE   TIME\nnode1  17µs", false},
		{"node1  CONFIGURED", "node2  CONFIGURED", false},
		{"node1  CONFIGURED", "node1  PENDING", false},
		{"10.1.2.0/24 via 192.168.30.2", "10.1.1.0/24 via\n    192.168.30.1", true},
		{"10.1.2.0/24", "10.1.2.0", false},
		{"vpp-tap-c61831aeb599…", "vpp-tap-495bb0b099ca…", true},
		{"02:fe:…", "02:fe:11:22:33:44", true},
		{"a\n…\nd", "a\nb\nc\nd", true},
		{"a\n…\nd", "a\nb\nc", false},
		{"a\n…", "a\nb", true},
		{"a\nb", "a\nb\nc", false},
		{`{"state":"UP",…}`, `{"state":"UP","mtu":1}`, true},
		{`{"name":"a","mtu":1}`, `{"name":"a", "mtu":2}`, true},
		{"container: c61831aeb599…", "container: 99174646c4ef…", true},
		{"after 11-20\n   12:53:49", "after\n 01-02 00:00:01", true},
		{"11-20 12:53:49.354", "01-02 00:00:00.001", true},
		{"interfaces[1].name", "interfaces[22].name", true},
		{"1/252", "3/252", true},
	} {
		if got := sameShape(c.sample, c.output); got != c.same {
			t.Errorf("sample %q, output %q: same shape is %v", c.sample, c.output, got)
		}
	}
}

// Numbers of a page are replaced by the lab's: whole words only, and all at once.
func TestLets(t *testing.T) {
	l := lets{"8": "9", "9": "11", "10": "4"}
	if got, want := l.there("contivctl diff --from txn:8 --to txn:9 10.1.2.0/24 10"), "contivctl diff --from txn:9 --to txn:11 10.1.2.0/24 4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := l.back("#4 Add Pod, transaction #9, #94"), "#10 Add Pod, transaction #8, #94"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
