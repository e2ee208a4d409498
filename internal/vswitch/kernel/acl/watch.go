package acl

import (
	"fmt"
	"syscall"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
)

// Notice ignores rtnetlink, which has no events about access lists.
func (v *Driver) Notice(syscall.NetlinkMessage, func(drift.Notice)) {}

// Check reports the access lists if another party changed their tables.
func (v *Driver) Check(b *drift.Batch) {
	var tables []string
	for _, family := range aclFamilies {
		tables = append(tables, family+" "+AclTableName)
	}
	if by, foreign := v.NFT.Foreign(drift.Suspects[nft.Change](b), tables...); foreign {
		b.Report(fmt.Sprintf("nftables table %q was changed%s", AclTableName, by), own.KeysOfAll[*vpp_acl.ACL](v.Reg)...)
	}
}
