package podguard

import (
	"errors"
	"strings"

	"github.com/contiv/contiv/netlink/nft"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// Nftables is the kernel's nftables in the network namespace of the vswitch.
type Nftables interface {
	// Do calls fn with a connection that nobody else uses meanwhile. What fn adds to
	// it is sent when fn has returned, as one transaction; after an error of fn nothing is,
	// and the connection is not used again.
	Do(fn func(*nftables.Conn) error) error
}

// tables changes our tables; what is changed is noted as our own doing.
type tables struct{ conn *nft.Conn }

func (t tables) Do(fn func(*nftables.Conn) error) error {
	return t.conn.Do(func(c *nftables.Conn) error {
		return t.conn.Gen.Own(func() error {
			if err := fn(c); err != nil {
				return err
			}
			return c.Flush()
		})
	})
}

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
