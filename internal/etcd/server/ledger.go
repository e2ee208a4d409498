package server

import (
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Limits bound the use of etcd by each user except Root.
type Limits struct {
	// Bytes of the user's keys and values, including revisions that are not compacted yet.
	Bytes int64
	// Keys and Leases that exist. Watches counts watchers and open streams.
	Keys, Leases, Watches int
}

// Defaults of Limits. DefaultBytes is a fraction of the quota.
const (
	DefaultUserKeys    = 200_000
	DefaultUserLeases  = 64
	DefaultUserWatches = 1024
	defaultUserPart    = 16
)

const (
	// overhead is the size of a revision in addition to key and value.
	overhead = 128
	// slots divide the compaction period. etcd checks every tenth of it.
	slots = 12
	// nearFull is the percentage of the quota from which the largest writers are refused.
	nearFull = 80
	// smallPart is the fraction 1/smallPart of the quota that every user may use when etcd is
	// nearly full.
	smallPart    = 1024
	refusalLasts = 5 * time.Minute
)

// ledger records the use of etcd by each user.
//
//	start    a key's revisions count for its owner (Options.Owner)
//	write    counts for the user of the certificate, once it has succeeded
//	watch    reports changes by others: Root, other members, expired leases
//
// Each member counts separately. A user connected to several members may exceed a limit briefly on
// each.
type ledger struct {
	limits Limits
	quota  int64
	owner  func(key string) string
	// slot is the minimal time that older revisions count, divided by slots-1.
	slot time.Duration
	// size returns the size of the database file in bytes, which etcd compares with the quota.
	size func() int64
	now  func() time.Time

	mu       sync.Mutex
	accounts map[string]*account
	keys     map[string]entry
	// deletion is the revision of the last recorded deletion.
	deletion int64
}

type account struct {
	keys    int
	kept    int64 // bytes of current keys
	older   [slots]int64
	newest  int64
	pending struct {
		keys, leases int
		bytes        int64
	}
	watches int

	refusedAt time.Time
	refused   string
}

type entry struct {
	user     string
	size     int64
	revision int64
}

func newLedger(limits Limits, quota int64, keepFor time.Duration, owner func(string) string, size func() int64) *ledger {
	return &ledger{
		limits: limits, quota: quota, owner: owner, size: size, slot: keepFor / (slots - 2), now: time.Now,
		accounts: make(map[string]*account), keys: make(map[string]entry),
	}
}

func (l *ledger) account(user string) *account {
	a := l.accounts[user]
	if a == nil {
		a = &account{}
		l.accounts[user] = a
	}
	return a
}

// settle removes compacted revisions and returns the total bytes of an account.
func (l *ledger) settle(a *account) (bytes int64) {
	newest := l.now().UnixNano() / int64(l.slot)
	for n := max(a.newest+1, newest-slots+1); n <= newest; n++ {
		a.older[n%slots] = 0
	}
	a.newest = max(a.newest, newest)
	bytes = a.kept
	for _, n := range a.older {
		bytes += n
	}
	return bytes
}

// supersede adds a revision that is no longer current.
func (l *ledger) supersede(user string, size int64) {
	a := l.account(user)
	l.settle(a)
	a.older[a.newest%slots] += size
}

func (l *ledger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.keys)
	for _, a := range l.accounts {
		a.keys, a.kept, a.older = 0, 0, [slots]int64{}
	}
}

func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		a.older = [slots]int64{}
	}
}

// put records the value of a key at a revision. If user is "", the key stays with its current user
// or belongs to its owner. A writer's call may come after the watch reported the write and a later
// deletion of the key: it then changes nothing.
func (l *ledger) put(user, key string, size, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.keys[key]
	switch {
	case known && before.revision > revision, known && before.revision == revision && (user == "" || user == before.user):
		return
	case !known && user != "" && revision < l.deletion && l.owner(key) != "": // the watch had recorded the key
		return
	case user == "" && known:
		user = before.user
	case user == "":
		if user = l.owner(key); user == "" {
			return
		}
	}
	if known {
		l.drop(key, before, before.revision < revision)
	}
	a := l.account(user)
	a.keys++
	a.kept += size
	l.keys[key] = entry{user, size, revision}
}

// drop removes a key. superseded means that its revision is not compacted yet.
func (l *ledger) drop(key string, e entry, superseded bool) {
	a := l.account(e.user)
	a.keys--
	a.kept -= e.size
	delete(l.keys, key)
	if superseded {
		l.supersede(e.user, e.size)
	}
}

func (l *ledger) deleted(key string, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deletion = max(l.deletion, revision)
	if e, ok := l.keys[key]; ok && e.revision < revision {
		l.drop(key, e, true)
	}
}

func sizeOf(key, value []byte) int64 { return int64(len(key)+len(value)) + overhead }

type admission struct {
	l     *ledger
	user  string
	bytes int64
	keys  int
}

func (l *ledger) admit(user string, puts []*pb.PutRequest) (*admission, error) {
	if len(puts) == 0 {
		return &admission{l: l, user: user}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &admission{l: l, user: user}
	for _, put := range puts {
		e, known := l.keys[string(put.Key)]
		if !known {
			m.keys++
		}
		if put.IgnoreValue {
			m.bytes += e.size
			continue
		}
		m.bytes += sizeOf(put.Key, put.Value)
	}
	a := l.account(user)
	bytes, keys := l.settle(a)+a.pending.bytes+m.bytes, a.keys+a.pending.keys+m.keys
	switch {
	case bytes > l.limits.Bytes:
		return nil, l.refuse(user, a, "bytes", fmt.Sprintf("it uses %d MiB of at most %d, including revisions that are not compacted yet", (bytes-m.bytes)>>20, l.limits.Bytes>>20))
	case keys > l.limits.Keys && m.keys > 0:
		return nil, l.refuse(user, a, "keys", fmt.Sprintf("it has %d keys of at most %d", keys-m.keys, l.limits.Keys))
	}
	if level, near := l.level(); near && bytes > level {
		return nil, l.refuse(user, a, "full", fmt.Sprintf("etcd is nearly full, and this user uses the most: %d MiB", (bytes-m.bytes)>>20))
	}
	a.pending.bytes += m.bytes
	a.pending.keys += m.keys
	return m, nil
}

func (m *admission) done() {
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	a := m.l.account(m.user)
	a.pending.bytes -= m.bytes
	a.pending.keys -= m.keys
}

// level returns the limit per user in a nearly full etcd. It is below the largest user's size and
// falls as the size approaches the quota.
func (l *ledger) level() (level int64, near bool) {
	used, from := l.size(), l.quota/100*nearFull
	if used < from {
		return 0, false
	}
	var most int64
	for _, a := range l.accounts {
		most = max(most, l.settle(a))
	}
	left := float64(max(l.quota-used, 0)) / float64(l.quota-from)
	return max(int64(float64(most)*min(left, 0.999)), l.quota/smallPart), true
}

func (l *ledger) refuse(user string, a *account, limit, why string) error {
	a.refused, a.refusedAt = why, l.now()
	refusedRequests.WithLabelValues(user, limit).Inc()
	return refusal{user, why}
}

type refusal struct{ user, why string }

func (r refusal) Error() string {
	return fmt.Sprintf("%s reached its limit in etcd: %s", r.user, r.why)
}

func (l *ledger) report() (most string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var largest int64 = -1
	others := -1
	for user, a := range l.accounts {
		if a.refusedAt.IsZero() || l.now().Sub(a.refusedAt) > refusalLasts {
			continue
		}
		others++
		if bytes := l.settle(a); bytes > largest {
			largest, most = bytes, refusal{user, a.refused}.Error()
		}
	}
	if others > 0 {
		most += fmt.Sprintf(" (and %d others)", others)
	}
	return most
}

func (l *ledger) watch(user string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(user)
	if a.watches >= l.limits.Watches {
		return l.refuse(user, a, "watches", fmt.Sprintf("it has %d watches and streams of at most %d", a.watches, l.limits.Watches))
	}
	a.watches++
	return nil
}

func (l *ledger) unwatch(user string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(user).watches -= n
}

// lease reserves room for a lease of a user that already has the given number.
func (l *ledger) lease(user string, has int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(user)
	if has += a.pending.leases; has >= l.limits.Leases {
		return l.refuse(user, a, "leases", fmt.Sprintf("it has %d leases of at most %d", has, l.limits.Leases))
	}
	a.pending.leases++
	return nil
}

func (l *ledger) leased(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(user).pending.leases--
}
