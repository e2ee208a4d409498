package podguard

import (
	"errors"
	"strings"

	"github.com/contiv/contiv/netlink/nft"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// transaction is changes of both tables that happen together.
type transaction struct{ inet, arp *nft.Batch }

func newTransaction() transaction {
	return transaction{&nft.Batch{Table: TableName, Family: unix.NFPROTO_INET}, &nft.Batch{Table: TableName, Family: unix.NFPROTO_ARP}}
}

// of is the part for a table.
func (t transaction) of(table *nftables.Table) *nft.Batch {
	if table == arp {
		return t.arp
	}
	return t.inet
}

func (t transaction) add(e element, comment string) {
	item := e.item()
	item.Comment = comment
	t.of(e.set.Table).AddElements([]nft.Element{item})
}

func (t transaction) remove(e element) { t.of(e.set.Table).DeleteElements([]nft.Element{e.item()}) }

func (t transaction) addSet(s *nftables.Set) { t.of(s.Table).AddSet(s) }

// setChain makes a chain consist of the rules.
func (t transaction) setChain(c *nftables.Chain, rules []rule) {
	b := t.of(c.Table)
	b.AddChain(c)
	for _, r := range rules {
		if r.chain == c.Name {
			b.AddRule(c.Name, r.comment(), nft.Words(r.words...))
		}
	}
}

func (e element) item() nft.Element {
	item := nft.Element{Set: e.set.Name, Key: e.key}
	if e.chain != "" {
		item.Verdict = "jump " + e.chain
	}
	return item
}

func (g *Guards) commit(t transaction) error { return g.nft.Commit(t.inet, t.arp) }

// isMissing reports whether an error says that a table, a set or an element does not
// exist (any more). The library wraps some errors, and writes out others.
func isMissing(err error) bool { return says(err, unix.ENOENT) }

func says(err error, what unix.Errno) bool {
	return err != nil && (errors.Is(err, what) || strings.HasSuffix(err.Error(), what.Error()))
}

// elements returns the elements of a set; none if the set does not exist.
//
// While the kernel moves a set to a larger or smaller hash table, it lists some
// elements twice and others not at all.
func elements(c *nftables.Conn, set *nftables.Set) ([]nftables.SetElement, error) {
	for range 8 {
		list, err := c.GetSetElements(set)
		if isMissing(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		seen := make(map[string]bool, len(list))
		for _, e := range list {
			seen[string(e.Key)] = true
		}
		if len(seen) == len(list) {
			return list, nil
		}
	}
	return nil, errors.New("nftables does not list set " + set.Name + " consistently: it is being changed all the time")
}
