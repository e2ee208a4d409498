package iptables

import (
	"slices"
	"strings"
	"testing"

	linux_iptables "github.com/contiv/contiv/api/ligato/linux/iptables"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/google/go-cmp/cmp"
)

func TestRuleChainMark(t *testing.T) {
	for _, name := range []string{"web", "a b/c", `quo"te\`, "it's", "naïve", "", strings.Repeat("x", maxRuleChainName)} {
		want := chainMark{linux_iptables.RuleChain_INPUT, linux_iptables.RuleChain_DROP, "0123456789abcdef", name}
		if got, ok := parseMark(want.rule()); !ok || got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for _, rule := range []string{
		"", "-j ACCEPT", "-m comment --comment contiv", `-m comment --comment "contiv/INPUT/NONE/-"`,
		`-m comment --comment "contiv/INPUT/NONE/-/x" -j DROP`, `-m comment --comment "contiv/INPUT/WHAT/-/x"`,
	} {
		if mark, ok := parseMark(rule); ok {
			t.Errorf("%s is a mark: %+v", rule, mark)
		}
	}
}

func TestRulesThatDifferInSpaceAreEqual(t *testing.T) {
	a := normalRules([]string{`  -s 10.0.0.1   -m comment --comment "a  b" -j ACCEPT `})
	if b := normalRules([]string{`-s 10.0.0.1 -m comment --comment "a  b" -j ACCEPT`}); !slices.Equal(a, b) {
		t.Errorf("%q %q", a, b)
	}
	if b := normalRules([]string{`-s 10.0.0.1 -m comment --comment "a b" -j ACCEPT`}); slices.Equal(a, b) {
		t.Error("space between quotes does not count")
	}
}

func TestInvalidRuleChains(t *testing.T) {
	chain := func(change func(*ruleChain)) *ruleChain {
		v := &ruleChain{Name: "c", ChainType: linux_iptables.RuleChain_INPUT, Rules: []string{"-s 10.0.0.1 -j DROP"}}
		change(v)
		return v
	}
	for text, change := range map[string]func(*ruleChain){
		"":                                     func(*ruleChain) {},
		"rule chain has no name":               func(v *ruleChain) { v.Name = "" },
		"longer than 200":                      func(v *ruleChain) { v.Name = strings.Repeat("x", 201) },
		"neither IPV4 nor IPV6":                func(v *ruleChain) { v.Protocol = 7 },
		"table 9 does not exist":               func(v *ruleChain) { v.Table = 9 },
		"no name: set chain_name":              func(v *ruleChain) { v.ChainType = linux_iptables.RuleChain_CUSTOM },
		"table FILTER has no chain PREROUTING": func(v *ruleChain) { v.ChainType = linux_iptables.RuleChain_PREROUTING },
		"table RAW has no chain INPUT":         func(v *ruleChain) { v.Table = linux_iptables.RuleChain_RAW },
		"table NAT has no chain FORWARD": func(v *ruleChain) {
			v.Table, v.ChainType = linux_iptables.RuleChain_NAT, linux_iptables.RuleChain_FORWARD
		},
		"table SECURITY has no chain POSTROUTING": func(v *ruleChain) {
			v.Table, v.ChainType = linux_iptables.RuleChain_SECURITY, linux_iptables.RuleChain_POSTROUTING
		},
		"only built-in chains of table FILTER": func(v *ruleChain) {
			v.Table, v.DefaultPolicy = linux_iptables.RuleChain_MANGLE, linux_iptables.RuleChain_DROP
		},
		"only built-in chains have": func(v *ruleChain) {
			v.ChainType, v.ChainName, v.DefaultPolicy = linux_iptables.RuleChain_CUSTOM, "x", linux_iptables.RuleChain_DROP
		},
		"use ACCEPT or DROP":   func(v *ruleChain) { v.DefaultPolicy = linux_iptables.RuleChain_RETURN },
		"CONTIV- are reserved": func(v *ruleChain) { v.ChainType, v.ChainName = linux_iptables.RuleChain_CUSTOM, "CONTIV-1" },
		"longer than 28": func(v *ruleChain) {
			v.ChainType, v.ChainName = linux_iptables.RuleChain_CUSTOM, strings.Repeat("x", 29)
		},
		"LOG is a target":         func(v *ruleChain) { v.ChainType, v.ChainName = linux_iptables.RuleChain_CUSTOM, "LOG" },
		"needs an absolute path":  func(v *ruleChain) { v.Namespace = &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_FD} },
		"each rule is one line":   func(v *ruleChain) { v.Rules = []string{"-j DROP\n-A FORWARD -j DROP"} },
		"quote that does not end": func(v *ruleChain) { v.Rules = []string{`-m comment --comment "x -j DROP`} },
		"a rule is empty":         func(v *ruleChain) { v.Rules = []string{" "} },
		"has the option -A":       func(v *ruleChain) { v.Rules = []string{"-A INPUT -j DROP"} },
		"option --table=nat":      func(v *ruleChain) { v.Rules = []string{"--table=nat -j DROP"} },
		"option -M":               func(v *ruleChain) { v.Rules = []string{"-j DROP --fragment -M /tmp/evil"} },
		"option --modprobe=":      func(v *ruleChain) { v.Rules = []string{"--modprobe=/tmp/evil -j DROP"} },
		"option --modpr":          func(v *ruleChain) { v.Rules = []string{"--modpr /tmp/evil -j DROP"} },
		"option -fM/tmp/evil":     func(v *ruleChain) { v.Rules = []string{"-fM/tmp/evil -j DROP"} },
		"option -w":               func(v *ruleChain) { v.Rules = []string{`-m comment --comment "-A" -w -j DROP`} },
		"option --object-pinned":  func(v *ruleChain) { v.Rules = []string{"-m bpf --object-pinned /x -j DROP"} },
		"a slash or a dot":        func(v *ruleChain) { v.Rules = []string{"-m ../../tmp/evil -j DROP"} },
	} {
		err := validateRuleChain(chain(change))
		if text == "" {
			if err != nil {
				t.Error(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}

func TestRuleChainChangesOnlyWhatDiffers(t *testing.T) {
	for _, test := range []struct {
		old, new string
		want     []string
	}{
		{"a b c", "a b c", nil},
		{"a b c", "a x c", []string{"-D C 3", "-I C 3 x"}},
		{"a b c", "a b c d e", []string{"-A C d", "-A C e"}},
		{"a b c", "x y a b c", []string{"-I C 2 x", "-I C 3 y"}},
		{"a b c", "c", []string{"-D C 2", "-D C 2"}},
		{"a b", "b a", []string{"-D C 2", "-D C 2", "-A C b", "-A C a"}},
		{"", "a", []string{"-A C a"}},
		{"a a", "a", []string{"-D C 3"}},
	} {
		var s script
		s.changeRules("C", strings.Fields(test.old), strings.Fields(test.new))
		if d := cmp.Diff(test.want, []string(s)); d != "" {
			t.Errorf("%q to %q: %s", test.old, test.new, d)
		}
	}
}

func TestRuleChainDependsOnInterfacesAndChains(t *testing.T) {
	v := &ruleChain{
		Name: "c", Interfaces: []string{"eth-a"},
		Rules: []string{"-j ACCEPT", "-s 10.0.0.1 --jump web", "-g web", "-p tcp -j REJECT --reject-with tcp-reset"},
	}
	var got []string
	for _, d := range ruleChainDependencies(v) {
		got = append(got, d.Label+" "+d.Key)
	}
	want := []string{
		"interface-exists-eth-a config/linux/interfaces/v2/interface/eth-a",
		"chain-exists-web linux/iptables/IPV4/filter/chain/web/namespace/own",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
