package foreign_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nft/foreign"
)

// BenchmarkRules reads 10 000 foreign rules and evaluates a packet: rules with different addresses,
// sets, or fields without an index.
func BenchmarkRules(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("making network namespaces takes root: run the benchmark as root")
	}
	for name, rule := range map[string]string{
		"addresses": "ip saddr 172.16.%d.%d tcp dport 80 drop", "devices": "iifname x%d-%d drop", "sets": "ip saddr {172.16.%[1]d.%[2]d, 10.9.9.9} drop",
	} {
		ns := fmt.Sprintf("foreign%d", os.Getpid())
		command(b, "ip", "netns", "add", ns)
		var rules strings.Builder
		rules.WriteString("table inet some {\nchain f {\ntype filter hook forward priority 0\n")
		for i := range 10000 {
			fmt.Fprintf(&rules, rule+"\n", i/250, i%250)
		}
		rules.WriteString("}\n}\n")
		file := filepath.Join(b.TempDir(), "rules")
		if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
			b.Fatal(err)
		}
		command(b, "ip", "netns", "exec", ns, "nft", "-f", file)
		handle, err := namespace.Open("/var/run/netns/" + ns)
		if err != nil {
			b.Fatal(err)
		}
		read := func(b *testing.B) *foreign.Ruleset {
			r, err := foreign.Read(handle, func(string) bool { return false })
			if err != nil {
				b.Fatal(err)
			}
			return r
		}
		b.Run(name+"/read", func(b *testing.B) {
			for b.Loop() {
				read(b)
			}
		})
		b.Run(name+"/judge", func(b *testing.B) {
			r := read(b)
			packet := foreign.Packet{Hook: foreign.Forward, In: "c-pod", Out: "c-vxlanBVI", Protocol: 6, SrcPort: 40000, DstPort: 80, Size: 1450,
				Src: netip.MustParseAddr("10.1.1.2"), Dst: netip.MustParseAddr("10.1.2.2")}
			for b.Loop() {
				if found := r.Harms(packet); len(found) > 0 {
					b.Fatal(found)
				}
			}
		})
		handle.Close()
		command(b, "ip", "netns", "del", ns)
	}
}
