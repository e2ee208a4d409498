package podguard

import (
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

type transaction struct{ inet, arp *nft.Batch }

func newTransaction() transaction {
	return transaction{&nft.Batch{Table: TableName, Family: unix.NFPROTO_INET}, &nft.Batch{Table: TableName, Family: unix.NFPROTO_ARP}}
}

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

func (t transaction) setChain(c *nftables.Chain, rules []rule) {
	b := t.of(c.Table)
	b.AddChain(c)
	for _, r := range rules {
		if r.chain == c.Name {
			b.AddRule(c.Name, r.comment(), r.words)
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
