package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	linux_iptables "github.com/contiv/contiv/api/ligato/linux/iptables"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// firewall runs iptables or ip6tables in a namespace.
type firewall struct {
	ns       *namespaces.Namespace
	protocol linux_iptables.RuleChain_Protocol
}

func (f *firewall) program(suffix string) string {
	if f.protocol == linux_iptables.RuleChain_IPV6 {
		return "ip6tables-" + suffix
	}
	return "iptables-" + suffix
}

func (f *firewall) run(ctx context.Context, stdin, suffix string, args ...string) (string, error) {
	program := f.program(suffix)
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("the program %s is missing, install the package iptables: %w", program, kvscheduler.ErrUnsupported)
	}
	var stdout, stderr bytes.Buffer
	err = f.ns.Enter(func() error {
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
		return cmd.Run()
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, complaint(stderr.String()))
	}
	return stdout.String(), nil
}

// complaint extracts the error from a program's output.
func complaint(text string) string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "Try `") && !strings.HasPrefix(line, "# Warning:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// change reads a table, passes it to plan and applies the resulting script atomically.
func (f *firewall) change(ctx context.Context, table string, plan func(ipTable) (script, error)) error {
	text, err := f.run(ctx, "", "save", "-t", table)
	if err != nil {
		return err
	}
	t := parseTables(text)[table]
	if t == nil {
		t = ipTable{}
	}
	s, err := plan(t)
	if err != nil || len(s) == 0 {
		return err
	}
	if _, err := f.run(ctx, s.text(table), "restore", "--wait", "--noflush"); err != nil {
		return fmt.Errorf("%w%s", err, s.at(err))
	}
	return nil
}

// at returns the script line that an error refers to.
func (s script) at(err error) string {
	_, rest, ok := strings.Cut(err.Error(), "line")
	var line int
	if !ok {
		return ""
	}
	if n, _ := fmt.Sscanf(strings.TrimLeft(rest, ": "), "%d", &line); n != 1 || line < 2 || line-2 >= len(s) {
		return ""
	}
	return fmt.Sprintf(" (%s)", s[line-2])
}

// tables reads all tables of the family; none if iptables is not installed.
func (f *firewall) tables(ctx context.Context) (map[string]ipTable, error) {
	some, err := f.hasTables()
	if err != nil || !some {
		return nil, err
	}
	text, err := f.run(ctx, "", "save")
	if errors.Is(err, kvscheduler.ErrUnsupported) {
		return nil, nil
	}
	return parseTables(text), err
}

// firewallTables lists the names of iptables tables.
var firewallTables = []string{"filter", "nat", "mangle", "raw", "security"}

// hasTables reports, without running a program, whether the namespace has any of the tables. Most
// have none.
func (f *firewall) hasTables() (some bool, err error) {
	legacy, family := "ip_tables_names", unix.NFPROTO_IPV4
	if f.protocol == linux_iptables.RuleChain_IPV6 {
		legacy, family = "ip6_tables_names", unix.NFPROTO_IPV6
	}
	err = f.ns.Enter(func() error {
		if names, err := os.ReadFile("/proc/thread-self/net/" + legacy); err == nil && len(names) > 0 {
			some = true
			return nil
		}
		names, err := nftTables(uint8(family))
		some = slices.ContainsFunc(names, func(name string) bool { return slices.Contains(firewallTables, name) })
		return err
	})
	return some, err
}

// nftTables returns the names of the nftables tables of a family in the thread's
// namespace.
func nftTables(family uint8) (names []string, err error) {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETTABLE, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: unix.NFNETLINK_V0})
	answers, err := req.Execute(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE)
	if rtnl.IsUnsupported(err) || errors.Is(err, unix.EINVAL) { // a kernel without nftables has no tables
		return nil, nil
	}
	for _, answer := range answers {
		if _, name := nftTableOf(answer); name != "" {
			names = append(names, name)
		}
	}
	return names, err
}

// nftTableOf returns the family and name of the table from an nftables message. The table name is
// the first attribute of tables, chains and rules.
func nftTableOf(data []byte) (family uint8, name string) {
	if len(data) < nl.SizeofNfgenmsg {
		return 0, ""
	}
	attrs, err := nl.ParseRouteAttr(data[nl.SizeofNfgenmsg:])
	if err != nil {
		return 0, ""
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.NFTA_RULE_TABLE {
			return data[0], nl.BytesToString(a.Value)
		}
	}
	return data[0], ""
}
