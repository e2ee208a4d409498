package datastore

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Block is a block of addresses, with the hosts that use it.
type Block struct {
	CIDR netip.Prefix
	// Host owns the block; "" if it was released, or belongs to something virtual such as load
	// balancers.
	Host string
	// Borrowed maps addresses in use on other hosts to these hosts.
	Borrowed map[netip.Addr]string
}

// Equal reports whether two blocks lead to the same routes.
func (b Block) Equal(other Block) bool {
	if b.CIDR != other.CIDR || b.Host != other.Host || len(b.Borrowed) != len(other.Borrowed) {
		return false
	}
	for addr, host := range b.Borrowed {
		if other.Borrowed[addr] != host {
			return false
		}
	}
	return true
}

// blockJSON has the fields of Calico's AllocationBlock needed for routes, in etcd and in the spec
// of an IPAMBlock.
type blockJSON struct {
	CIDR        string  `json:"cidr"`
	Affinity    *string `json:"affinity"` // "host:<name>", "virtual:<name>", null
	Allocations []*int  `json:"allocations"`
	Attributes  []struct {
		Active map[string]any `json:"secondary"`
	} `json:"attributes"`
	Deleted bool `json:"deleted"`
	// HostAffinity preceded Affinity. It is just the name.
	HostAffinity *string `json:"hostAffinity"`
}

// DecodeBlock decodes a block. ok is false if Calico is about to delete it. The error may be about
// allocations that were omitted from the returned block.
func DecodeBlock(data []byte) (b Block, ok bool, err error) {
	var v blockJSON
	if err := json.Unmarshal(data, &v); err != nil {
		return b, false, fmt.Errorf("the block is not as Calico writes it: %w", err)
	}
	if b.CIDR, err = parseCIDR(v.CIDR); err != nil {
		return b, false, err
	}
	if v.Deleted {
		return b, false, nil
	}
	if b.Host, err = v.host(); err != nil {
		return b, false, err
	}
	b.Borrowed, err = v.borrowed(b)
	return b, true, err
}

func (v *blockJSON) host() (string, error) {
	name := ""
	switch {
	case v.Affinity != nil && *v.Affinity != "":
		kind, rest, typed := strings.Cut(*v.Affinity, ":")
		if !typed {
			return "", fmt.Errorf("the block %s belongs to %q, which is not like host:NAME", v.CIDR, *v.Affinity)
		}
		if kind != "host" {
			return "", nil
		}
		name = rest
	case v.HostAffinity != nil:
		name = *v.HostAffinity
	default:
		return "", nil
	}
	return name, checkHost(name)
}

// borrowed returns the addresses in use on other hosts. Allocations without a node (reserved by
// Windows or Calico) follow their block.
func (v *blockJSON) borrowed(b Block) (map[netip.Addr]string, error) {
	if size := 1 << (b.CIDR.Addr().BitLen() - b.CIDR.Bits()); len(v.Allocations) > size {
		return nil, fmt.Errorf("the block %s has %d allocations but %d addresses: none is taken for borrowed", b.CIDR, len(v.Allocations), size)
	}
	var (
		borrowed map[netip.Addr]string
		errs     []error
	)
	addr := b.CIDR.Addr()
	for _, attribute := range v.Allocations {
		if attribute != nil {
			switch host, err := v.node(*attribute); {
			case err != nil:
				errs = append(errs, fmt.Errorf("address %s: %w", addr, err))
			case host != "" && host != b.Host:
				if borrowed == nil {
					borrowed = make(map[netip.Addr]string)
				}
				borrowed[addr] = host
			}
		}
		addr = addr.Next()
	}
	return borrowed, summary(errs)
}

func (v *blockJSON) node(attribute int) (string, error) {
	if attribute < 0 || attribute >= len(v.Attributes) {
		return "", fmt.Errorf("its attributes have number %d of %d", attribute, len(v.Attributes))
	}
	switch node := v.Attributes[attribute].Active["node"].(type) {
	case nil:
		return "", nil
	case string:
		if node == "" {
			return "", nil
		}
		return node, checkHost(node)
	default:
		return "", fmt.Errorf("its node is %v, not a name", node)
	}
}

func summary(errs []error) error {
	if len(errs) > 1 {
		return fmt.Errorf("%w, and %d more", errs[0], len(errs)-1)
	}
	return errors.Join(errs...)
}

// maxHost is the maximum length of a host name in bytes, as in DNS.
const maxHost = 253

// checkHost refuses names that cannot be part of a key.
func checkHost(name string) error {
	if name == "" || len(name) > maxHost || strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("%.300q is no name of a host", name)
	}
	return nil
}
