package nft

import (
	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Constants of sets with ranges of several fields (linux/netfilter/nf_tables.h).
const (
	setConcat     = 0x80 // NFT_SET_CONCAT
	setDescConcat = 2    // NFTA_SET_DESC_CONCAT
	setFieldLen   = 1    // NFTA_SET_FIELD_LEN
	elementKeyEnd = 10   // NFTA_SET_ELEM_KEY_END
)

func (b *Batch) fields(types []nftables.SetDatatype) (list []netlink.Attribute) {
	for _, field := range types {
		list = append(list, b.nested(unix.NFTA_LIST_ELEM, netlink.Attribute{Type: setFieldLen, Data: big32(field.Bytes)}))
	}
	return list
}
