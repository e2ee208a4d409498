package nft

import (
	"encoding/binary"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// BenchmarkWriters compares this package, the library google/nftables, and the program nft, which
// knftables executes: 10 000 elements in one transaction, one more element, one rule, and listing
// all elements. See docs/design/adr/012.
func BenchmarkWriters(b *testing.B) {
	for _, w := range []writer{ownWriter{}, libraryWriter{}, programWriter{}} {
		b.Run(w.name(), func(b *testing.B) {
			s := newSite(b)
			s.addBase(b, "inet", "t")
			keys := make([]string, 10_000)
			for i := range keys {
				keys[i] = string(binary.BigEndian.AppendUint32(nil, 10<<24+uint32(i)))
			}
			b.Run("10000 elements", func(b *testing.B) {
				for b.Loop() {
					w.add(b, s, keys)
					b.StopTimer()
					s.nft(b, "", "flush", "set", "inet", "t", "subjects4")
					b.StartTimer()
				}
			})
			w.add(b, s, keys)
			b.Run("one element", func(b *testing.B) {
				for i := uint32(0); b.Loop(); i++ {
					w.add(b, s, []string{string(binary.BigEndian.AppendUint32(nil, 11<<24+i))})
				}
			})
			b.Run("one rule", func(b *testing.B) {
				for b.Loop() {
					w.rule(b, s)
					b.StopTimer()
					s.nft(b, "", "flush", "chain", "inet", "t", "c")
					b.StartTimer()
				}
			})
			b.Run("one dump", func(b *testing.B) {
				for b.Loop() {
					if n := w.dump(b, s); n < len(keys) {
						b.Fatalf("%d elements", n)
					}
				}
			})
		})
	}
}

type writer interface {
	name() string
	add(b *testing.B, s *site, keys []string)
	rule(b *testing.B, s *site)
	dump(b *testing.B, s *site) int
}

type ownWriter struct{}

func (ownWriter) name() string { return "batch" }

func (ownWriter) add(b *testing.B, s *site, keys []string) {
	list := make([]Element, len(keys))
	for i, key := range keys {
		list[i] = Element{Set: "subjects4", Key: key}
	}
	batch := &Batch{Table: "t", Family: unix.NFPROTO_INET}
	batch.AddElements(list)
	must(b, s.Locked(func() error { return s.Commit(batch) }))
}

func (ownWriter) rule(b *testing.B, s *site) {
	batch := &Batch{Table: "t", Family: unix.NFPROTO_INET}
	batch.AddText("c", "comment", "ip saddr @subjects4 drop")
	must(b, s.Locked(func() error { return s.Commit(batch) }))
}

func (ownWriter) dump(b *testing.B, s *site) int {
	list, err := s.gen.elements(unix.NFPROTO_INET, "t", "subjects4")
	must(b, err)
	return len(list)
}

type libraryWriter struct{}

func (w libraryWriter) name() string { return "google-nftables" }

var (
	libraryTable = &nftables.Table{Name: "t", Family: nftables.TableFamilyINet}
	librarySet   = &nftables.Set{Table: libraryTable, Name: "subjects4", KeyType: nftables.TypeIPAddr}
)

// do calls fn with a connection of the library.
func (w libraryWriter) do(s *site, fn func(*nftables.Conn) error) error {
	if s.library == nil {
		c, err := nftables.New(nftables.AsLasting(), nftables.WithNetNSFd(int(s.ns.Handle)), nftables.WithSockOptions(wideBuffers))
		if err != nil {
			return err
		}
		s.library = c
	}
	return fn(s.library)
}

func (w libraryWriter) add(b *testing.B, s *site, keys []string) {
	must(b, w.do(s, func(c *nftables.Conn) error {
		for len(keys) > 0 { // a message has at most 64 KiB
			n := min(len(keys), 1000)
			list := make([]nftables.SetElement, n)
			for i, key := range keys[:n] {
				list[i].Key = []byte(key)
			}
			keys = keys[n:]
			if err := c.SetAddElements(librarySet, list); err != nil {
				return err
			}
		}
		return c.Flush()
	}))
}

func (w libraryWriter) rule(b *testing.B, s *site) {
	must(b, w.do(s, func(c *nftables.Conn) error {
		c.AddRule(&nftables.Rule{Table: libraryTable, Chain: &nftables.Chain{Name: "c", Table: libraryTable}, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Register: 1, Data: []byte{unix.NFPROTO_IPV4}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
			&expr.Lookup{SourceRegister: 1, SetName: "subjects4"}, &expr.Verdict{Kind: expr.VerdictDrop},
		}})
		return c.Flush()
	}))
}

func (w libraryWriter) dump(b *testing.B, s *site) (n int) {
	must(b, w.do(s, func(c *nftables.Conn) error {
		list, err := c.GetSetElements(librarySet)
		n = len(list)
		return err
	}))
	return n
}

type programWriter struct{}

func (programWriter) name() string { return "nft" }

// run does not use ip netns exec, which a program in the right namespace does not need.
func (programWriter) run(b *testing.B, s *site, script string, args ...string) (out []byte) {
	must(b, s.ns.Run(func() (err error) {
		cmd := exec.Command("nft", args...)
		cmd.Stdin = strings.NewReader(script)
		out, err = cmd.Output()
		return err
	}))
	return out
}

func (w programWriter) add(b *testing.B, s *site, keys []string) {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = fmt.Sprintf("%d.%d.%d.%d", key[0], key[1], key[2], key[3])
	}
	w.run(b, s, "add element inet t subjects4 { "+strings.Join(texts, ", ")+" }\n", "-f", "-")
}

func (w programWriter) rule(b *testing.B, s *site) {
	w.run(b, s, "add rule inet t c ip saddr @subjects4 drop comment \"comment\"\n", "-f", "-")
}

func (w programWriter) dump(b *testing.B, s *site) int {
	return strings.Count(string(w.run(b, s, "", "-j", "list", "set", "inet", "t", "subjects4")), `10.`)
}
