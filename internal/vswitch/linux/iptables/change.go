package iptables

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	linux_iptables "github.com/contiv/contiv/api/ligato/linux/iptables"
)

var (
	// ErrForeignChain reports that an iptables chain has our name but not our mark.
	ErrForeignChain = errors.New("another chain has this name")
	// ErrPolicyTaken reports that two rule chains want different default policies for one built-in
	// chain.
	ErrPolicyTaken = errors.New("default policies contradict each other")
)

// script is an atomic input of iptables-restore for one table.
type script []string

func (s *script) add(format string, args ...any) { *s = append(*s, fmt.Sprintf(format, args...)) }

// text is empty if the script is.
func (s script) text(table string) string {
	if len(s) == 0 {
		return ""
	}
	return "*" + table + "\n" + strings.Join(s, "\n") + "\nCOMMIT\n"
}

// put returns the commands that give the chain its rules, policy and place. old holds the
// previously requested rules, nil if none. Unchanged rules are not touched, so their counters
// continue.
func (t ipTable) put(v *ruleChain, old []string) (script, error) {
	var s script
	name := ChainName(v)
	have := t[name]
	mark, ours := have.mark()
	if have != nil && !isReplaceable(v, have) {
		return nil, fmt.Errorf("%w: chain %s of table %s: remove it, or give this one another chain_name", ErrForeignChain, name, tableName(v))
	}
	// The seal depends on how iptables-save prints the rules, so it is set later.
	marking := markOf(v, noSeal).rule()
	switch {
	case have == nil:
		s.add(":%s - [0:0]", name)
		s.add("-A %s %s", name, marking)
		s.appendRules(name, v.GetRules())
	case ours && mark.seal == sealOf(old, have.contents()) && len(old) == len(have.contents()):
		s.add("-R %s 1 %s", name, marking)
		s.changeRules(name, old, v.GetRules())
	default:
		s.add("-F %s", name)
		s.add("-A %s %s", name, marking)
		s.appendRules(name, v.GetRules())
	}
	t.placeJump(&s, v, name)
	return s, t.setPolicy(&s, v, mark)
}

// isReplaceable reports whether a chain may be treated as ours: it has our mark, a name only we use, or
// no rules.
func isReplaceable(v *ruleChain, c *ipChain) bool {
	mark, marked := c.mark()
	return marked && mark.name == v.GetName() || builtinChain(v) != "" || len(c.rules) == 0
}

func (s *script) appendRules(chain string, rules []string) {
	for _, rule := range rules {
		s.add("-A %s %s", chain, rule)
	}
}

// changeRules replaces the rules between the first and the last difference. The mark is rule number
// 1.
func (s *script) changeRules(chain string, old, new []string) {
	from, to := normalRules(old), normalRules(new)
	first := 0
	for first < len(from) && first < len(to) && from[first] == to[first] {
		first++
	}
	same := 0
	for same < len(from)-first && same < len(to)-first && from[len(from)-1-same] == to[len(to)-1-same] {
		same++
	}
	for range len(from) - same - first {
		s.add("-D %s %d", chain, first+2)
	}
	for i := first; i < len(to)-same; i++ {
		if same == 0 {
			s.add("-A %s %s", chain, new[i])
		} else {
			s.add("-I %s %d %s", chain, i+2, new[i])
		}
	}
}

// placeJump adds the jump from the built-in chain before all foreign rules, ordered by logical
// name.
func (t ipTable) placeJump(s *script, v *ruleChain, name string) {
	builtin := builtinChain(v)
	if builtin == "" {
		return
	}
	logical := map[string]string{name: v.GetName()}
	placed := t.jumps(builtin)
	for _, chain := range placed {
		if mark, ok := t[chain].mark(); ok {
			logical[chain] = mark.name
		}
	}
	wanted := slices.Clone(placed)
	wanted = append(wanted, name)
	slices.SortFunc(wanted, func(a, b string) int { return cmp.Or(strings.Compare(logical[a], logical[b]), strings.Compare(a, b)) })
	wanted = slices.Compact(wanted)
	if slices.Equal(placed, wanted) {
		return
	}
	for _, chain := range placed {
		s.add("-D %s -j %s", builtin, chain)
	}
	for i, chain := range wanted {
		s.add("-I %s %d -j %s", builtin, i+1, chain)
	}
}

// setPolicy sets the policy of the built-in chain. A policy that we no longer set becomes ACCEPT,
// the kernel's default.
func (t ipTable) setPolicy(s *script, v *ruleChain, before chainMark) error {
	builtin := builtinChain(v)
	if builtin == "" {
		return nil
	}
	others := t.foreignPolicy(builtin, v.GetName())
	wanted := v.GetDefaultPolicy()
	switch {
	case wanted == linux_iptables.RuleChain_NONE && before.policy == linux_iptables.RuleChain_NONE:
		return nil
	case wanted == linux_iptables.RuleChain_NONE && others.policy == linux_iptables.RuleChain_NONE:
		wanted = linux_iptables.RuleChain_ACCEPT
	case wanted == linux_iptables.RuleChain_NONE:
		wanted = others.policy
	case others.policy != linux_iptables.RuleChain_NONE && others.policy != wanted:
		return fmt.Errorf("%w: rule chain %q gives %s of table %s the policy %v, not %v", ErrPolicyTaken,
			others.name, builtin, tableName(v), others.policy, wanted)
	}
	if c := t[builtin]; c == nil || c.policy != wanted.String() {
		s.add("-P %s %v", builtin, wanted)
	}
	return nil
}

// foreignPolicy returns the mark of another chain that sets the policy.
func (t ipTable) foreignPolicy(builtin, but string) chainMark {
	for _, chain := range t.jumps(builtin) {
		if mark, _ := t[chain].mark(); mark.name != but && mark.policy != linux_iptables.RuleChain_NONE {
			return mark
		}
	}
	return chainMark{}
}

// seal returns the commands that mark the chain as complete.
func (t ipTable) seal(v *ruleChain) (s script) {
	name := ChainName(v)
	if c := t[name]; c != nil && len(c.rules) > 0 {
		s.add("-R %s 1 %s", name, markOf(v, sealOf(v.GetRules(), c.contents())).rule())
	}
	return s
}

// remove returns the commands that delete the chain if it exists and is ours.
func (t ipTable) remove(v *ruleChain) (script, error) {
	var s script
	name := ChainName(v)
	mark, ours := t[name].mark()
	if !ours || mark.name != v.GetName() {
		return nil, nil
	}
	if builtin := builtinChain(v); builtin != "" {
		for _, chain := range t.jumps(builtin) {
			if chain == name {
				s.add("-D %s -j %s", builtin, name)
			}
		}
		if mark.policy != linux_iptables.RuleChain_NONE {
			without := &ruleChain{Name: v.GetName(), Table: v.GetTable(), ChainType: v.GetChainType()}
			if err := t.setPolicy(&s, without, mark); err != nil {
				return nil, err
			}
		}
	} else if users := t.users(name); len(users) > 0 {
		return nil, fmt.Errorf("chain %s of table %s is in use by chain %s: remove the rules there that jump to it",
			name, tableName(v), strings.Join(users, ", "))
	}
	s.add("-F %s", name)
	s.add("-X %s", name)
	return s, nil
}
