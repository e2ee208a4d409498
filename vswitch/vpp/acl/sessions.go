package acl

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/contiv/contiv/vswitch/vpp/ownership"
	"go.fd.io/govpp/binapi/acl"
)

// A list that permits a connection with REFLECT makes a session, by which answers pass. Sessions outlive their interface, and its
// lists: VPP (25.10) does not look for those of an interface that is gone (acl_fa_session_cleaner_process), and of one that loses
// its last list it looks at the 100 oldest of each kind only, of all interfaces (acl_fa_check_idle_sessions). But it gives
// the index of the interface to the next one, and what arrives as an answer is never judged again (stale_session_deleted):
// the peers of a former pod would reach a new one with its address that is isolated.
//
// So an interface gets its first lists when there are no sessions of its index.

// setLists gives an interface lists instead of those that it has now. sessionless is a list that makes no sessions, or noACL if the
// interface is to have none of ours.
func (v *ACLs) setLists(ctx context.Context, now *acl.ACLInterfaceListDetails, in, out []uint32, sessionless uint32) error {
	first := len(without(slices.Clone(now.Acls), sessionless)) == 0
	if first && sessionless != noACL {
		if err := v.endSessions(ctx, now.SwIfIndex, sessionless); err != nil {
			return err
		}
	}
	return v.bindAll(ctx, now.SwIfIndex, in, out)
}

func (v *ACLs) bindAll(ctx context.Context, iface ownership.Index, in, out []uint32) error {
	req := &acl.ACLInterfaceSetACLList{SwIfIndex: iface, NInput: uint8(len(in)), Acls: slices.Concat(in, out)}
	return v.vpp.Call(ctx, module, req, &acl.ACLInterfaceSetACLListReply{})
}

// endingTime is how long VPP may take to end sessions: it takes a second if there are 100 000.
const endingTime = 20 * time.Second

// endSessions makes VPP end all sessions of an interface: it loses the list until VPP has found them.
func (v *ACLs) endSessions(ctx context.Context, iface ownership.Index, sessionless uint32) error {
	for begun := time.Now(); ; {
		n, err := v.sessions(ctx, iface)
		switch {
		case err != nil || n == 0:
			return err
		case time.Since(begun) > endingTime:
			return fmt.Errorf("VPP still has %d sessions of an earlier interface, or of earlier lists", n)
		}
		for _, in := range [][]uint32{{sessionless}, nil} {
			if err := v.bindAll(ctx, iface, in, nil); err != nil {
				return err
			}
		}
	}
}

// sessionsLine is what one thread of VPP has of an interface.
var sessionsLine = regexp.MustCompile(`(?m)^\s*sw_if_index (\d+): add \d+ - del \d+ = (\d+);`)

// sessions returns how many sessions an interface has. VPP has no API message for that.
func (v *ACLs) sessions(ctx context.Context, iface ownership.Index) (n int, err error) {
	says, err := v.vpp.CLI(ctx, "show acl-plugin sessions")
	if err != nil {
		return 0, err
	}
	for _, thread := range sessionsLine.FindAllStringSubmatch(says, -1) {
		if thread[1] == strconv.Itoa(int(iface)) {
			some, err := strconv.Atoi(thread[2])
			if err != nil {
				return 0, fmt.Errorf("reading sessions of access lists: %w", err)
			}
			n += some
		}
	}
	return n, nil
}
