package iptables

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	linux_iptables "github.com/contiv/contiv/api/ligato/linux/iptables"
)

type ruleChain = linux_iptables.RuleChain

// ipTable holds the chains of a table by name, as iptables-save prints them.
type ipTable map[string]*ipChain

type ipChain struct {
	policy string // ACCEPT or DROP; "-" if the chain is not built in
	rules  []string
}

// parseTables parses the output of iptables-save into tables by name.
func parseTables(text string) map[string]ipTable {
	tables := map[string]ipTable{}
	var table ipTable
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "*"):
			table = ipTable{}
			tables[line[1:]] = table
		case table == nil:
		case strings.HasPrefix(line, ":"):
			name, rest, _ := strings.Cut(line[1:], " ")
			policy, _, _ := strings.Cut(rest, " ")
			table[name] = &ipChain{policy: policy}
		case strings.HasPrefix(line, "-A "):
			name, rule, _ := strings.Cut(line[len("-A "):], " ")
			if c := table[name]; c != nil {
				c.rules = append(c.rules, strings.TrimSpace(rule))
			}
		}
	}
	return tables
}

// mark returns the mark of a chain, false if the chain is not ours.
func (c *ipChain) mark() (chainMark, bool) {
	if c == nil || len(c.rules) == 0 {
		return chainMark{}, false
	}
	return parseMark(c.rules[0])
}

func (c *ipChain) contents() []string { return c.rules[1:] }

// jumps returns the names of our chains that a built-in chain jumps to, in order.
func (t ipTable) jumps(builtin string) (names []string) {
	if t[builtin] == nil {
		return nil
	}
	for _, rule := range t[builtin].rules {
		if name, ok := strings.CutPrefix(rule, "-j "); ok && strings.HasPrefix(name, ownChainPrefix) {
			names = append(names, name)
		}
	}
	return names
}

// users returns the names of the chains that jump to a chain.
func (t ipTable) users(chain string) (names []string) {
	for name, c := range t {
		if slices.ContainsFunc(c.rules, func(rule string) bool { return jumpTarget(rule) == chain }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// chainMark is the comment of the first rule of our chains: "contiv/<chain type>/<default
// policy>/<seal>/<logical name>". The rule has no effect.
type chainMark struct {
	chainType linux_iptables.RuleChain_ChainType
	policy    linux_iptables.RuleChain_Policy
	// seal shows whether the rules are still those that were applied.
	seal string
	name string
}

const (
	markPrefix = "contiv/"
	noSeal     = "-"
	// maxRuleChainName leaves room for the rest of the mark: comments have up to 255 bytes.
	maxRuleChainName = 200
)

func markOf(v *ruleChain, seal string) chainMark {
	return chainMark{v.GetChainType(), v.GetDefaultPolicy(), seal, v.GetName()}
}

func (m chainMark) rule() string {
	text := fmt.Sprintf("%s%v/%v/%s/%s", markPrefix, m.chainType, m.policy, m.seal, m.name)
	return `-m comment --comment "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

func parseMark(rule string) (chainMark, bool) {
	words, err := splitRule(rule)
	if err != nil || len(words) != 4 || words[2] != "--comment" {
		return chainMark{}, false
	}
	text, ok := strings.CutPrefix(words[3], markPrefix)
	parts := strings.SplitN(text, "/", 4)
	if !ok || len(parts) != 4 {
		return chainMark{}, false
	}
	chainType, ok1 := linux_iptables.RuleChain_ChainType_value[parts[0]]
	policy, ok2 := linux_iptables.RuleChain_Policy_value[parts[1]]
	return chainMark{
		linux_iptables.RuleChain_ChainType(chainType), linux_iptables.RuleChain_Policy(policy), parts[2], parts[3],
	}, ok1 && ok2
}

// sealOf hashes the requested and the printed rules. iptables rewrites rules (10.0.0.1 becomes
// 10.0.0.1/32), so a restarted agent can only compare them through a seal kept in the kernel.
func sealOf(requested, printed []string) string {
	h := sha256.New()
	for _, rules := range [][]string{normalRules(requested), printed} {
		fmt.Fprintf(h, "%d\n%s\n", len(rules), strings.Join(rules, "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// normalRules returns the rules with normalised white space.
func normalRules(rules []string) []string {
	normal := make([]string, len(rules))
	for i, rule := range rules {
		words, _ := splitRule(rule)
		normal[i] = strings.Join(words, "\x00")
	}
	return normal
}

// splitRule splits a rule into words like iptables-restore: quotes group words, and a backslash
// inside them escapes the next byte.
func splitRule(rule string) (words []string, err error) {
	var word []byte
	inWord, quoted := false, false
	for i := 0; i < len(rule); i++ {
		switch c := rule[i]; {
		case quoted && c == '\\' && i+1 < len(rule):
			i++
			word = append(word, rule[i])
		case c == '"':
			quoted, inWord = !quoted, true
		case !quoted && (c == ' ' || c == '\t'):
			if inWord {
				words = append(words, string(word))
			}
			word, inWord = nil, false
		default:
			word, inWord = append(word, c), true
		}
	}
	if quoted {
		return nil, fmt.Errorf("rule %q has a quote that does not end", rule)
	}
	if inWord {
		words = append(words, string(word))
	}
	return words, nil
}

// jumpTarget returns the target of a rule, "" if it has none.
func jumpTarget(rule string) string {
	words, _ := splitRule(rule)
	for i, word := range words {
		switch word {
		case "-j", "--jump", "-g", "--goto":
			if i+1 < len(words) {
				return words[i+1]
			}
		}
		for _, long := range []string{"--jump=", "--goto="} {
			if target, ok := strings.CutPrefix(word, long); ok {
				return target
			}
		}
	}
	return ""
}
