package acl

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"go.fd.io/govpp/binapi/acl"
)

// A list that permits a connection with REFLECT creates a session, which admits replies. Sessions
// outlive their interface and its lists: VPP 25.10 does not search for sessions of a deleted
// interface (acl_fa_session_cleaner_process), and for one that loses its last list it checks only
// the 100 oldest of each kind, of all interfaces (acl_fa_check_idle_sessions). But it reuses the
// interface's index, and never evaluates replies again (stale_session_deleted): peers of a former
// pod would reach a new isolated pod with its address.
//
// So an interface gets its first lists only after all sessions of its index have ended.

// setLists replaces an interface's lists. sessionless is a list that creates no sessions, or noACL
// if the interface gets none of ours.
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

// endingTime is VPP's time limit for ending sessions; 100,000 take a second.
const endingTime = 20 * time.Second

// endSessions ends all sessions of an interface, which loses the list meanwhile.
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

// sessionsLine matches a thread's sessions of an interface.
var sessionsLine = regexp.MustCompile(`(?m)^\s*sw_if_index (\d+): add \d+ - del \d+ = (\d+);`)

// sessions returns the number of an interface's sessions. VPP has no API message for that.
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
