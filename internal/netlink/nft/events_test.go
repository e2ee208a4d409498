package nft

import (
	"encoding/binary"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func attribute(m []byte, kind uint16, value []byte) []byte {
	m = binary.NativeEndian.AppendUint16(m, uint16(4+len(value)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = append(m, value...)
	return append(m, make([]byte, (4-len(value)%4)%4)...)
}

// The kernel reports the process of a generation. A generation that we did not record is foreign.
func TestForeignChanges(t *testing.T) {
	message := func(kind uint16, attributes []byte) syscall.NetlinkMessage {
		return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: nfnlSubsysNFTables<<8 | kind},
			Data: append([]byte{unix.NFPROTO_INET, 0, 0, 0}, attributes...)}
	}
	transaction := func(e *Events, generation uint32, process string, pid uint32) []Change {
		e.Next(message(nftMsgDelRule, attribute(nil, nftaTableName, []byte("ours\x00"))))
		gen := attribute(nil, nftaGenID, binary.BigEndian.AppendUint32(nil, generation))
		if process != "" {
			gen = attribute(gen, nftaGenProcPID, binary.BigEndian.AppendUint32(nil, pid))
			gen = attribute(gen, nftaGenProcName, append([]byte(process), 0))
		}
		return e.Next(message(nftMsgNewGen, gen))
	}
	var e Events
	d := &Conn{}
	d.gen.own = []ownChange{{id: 7}}
	changes := transaction(&e, 7, "contiv-agent", 1)
	if by, foreign := d.Foreign(changes, "inet ours"); foreign {
		t.Errorf("our own change is foreign, made%s", by)
	}
	changes = append(changes, transaction(&e, 8, "nft", 17)...)
	if by, foreign := d.Foreign(changes, "inet ours"); !foreign || by != " by nft (process 17)" {
		t.Errorf("got %q, %v", by, foreign)
	}
	if _, foreign := d.Foreign(changes, "inet other"); foreign {
		t.Error("another table was changed")
	}
	if by, foreign := d.Foreign(transaction(&e, 9, "", 0), "inet ours"); !foreign || by != "" {
		t.Errorf("of a kernel that does not say: %q, %v", by, foreign)
	}
}
