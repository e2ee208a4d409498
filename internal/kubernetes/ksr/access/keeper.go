package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	retryMin    = 200 * time.Millisecond
	retryMax    = 5 * time.Second
	callTimeout = 5 * time.Second
)

// Keeper manages the users and roles.
type Keeper struct {
	etcd *etcd.Store
	auth clientv3.Auth
	log  *slog.Logger

	// kept holds the users in etcd, or nil if unknown.
	kept map[string][]permission
	// released holds the IDs of former nodes. A node that returns gets its ID back unless another
	// node has it.
	released map[string]uint32
	// lost holds the IDs of nodes at the last read of etcd. If etcd loses its data, these nodes get
	// their IDs back, because the addresses of their pods depend on them.
	lost     map[string]uint32
	revision int64
	// failed is the time of the last failed call of etcd, which etcd may still execute until
	// lateAfter. It is zero once the users have been read after that.
	failed    time.Time
	lateAfter time.Duration
	problems  map[string]bool
}

// New returns a keeper for an etcd that it accesses as root.
func New(s *etcd.Store, log *slog.Logger) *Keeper {
	return &Keeper{etcd: s, auth: s.Client(), log: log, lateAfter: 15 * time.Second, released: make(map[string]uint32), lost: make(map[string]uint32), problems: make(map[string]bool)}
}

// Run manages users and roles until ctx ends, or until ids reports that another instance writes.
// One instance at a time assigns IDs through ids. It retries after failures of etcd.
func (k *Keeper) Run(ctx context.Context, ids store.Broker) error {
	wait := retryMin
	for {
		err := k.follow(ctx, ids, func() { wait = retryMin })
		if ctx.Err() != nil {
			return nil
		}
		k.forget()
		k.failed = time.Now()
		k.log.Warn("updating the users of etcd failed, retrying", "in", wait, "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		wait = min(2*wait, retryMax)
	}
}

// forget makes the next step read the users again, because etcd may have lost them.
func (k *Keeper) forget() {
	for user, permissions := range k.kept {
		name, isNode := strings.CutPrefix(user, NodeUser)
		if id, ok := idOf(permissions); ok && isNode {
			k.lost[name] = id
		}
	}
	k.kept = nil
}

func (k *Keeper) follow(ctx context.Context, ids store.Broker, done func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, err := k.etcd.Watch(ctx, 0, nodePrefix, idPrefix, ClientPrefix)
	if err != nil {
		return err
	}
	for {
		if err := k.reconcile(ctx, ids); err != nil {
			return err
		}
		done()
		select {
		case batch, ok := <-changes:
			if !ok {
				return context.Cause(ctx)
			}
			if batch.Err != nil {
				return batch.Err
			}
		case <-k.late():
			k.forget()
			k.failed = time.Time{}
		}
	}
}

// late returns a channel that fires once etcd can no longer execute failed calls. Then the users
// must be read again, because they have no watch. It returns nil if that is done.
func (k *Keeper) late() <-chan time.Time {
	if k.failed.IsZero() {
		return nil
	}
	return time.After(time.Until(k.failed.Add(k.lateAfter)))
}

func (k *Keeper) addUser(ctx context.Context, name string) error {
	err := call(ctx, func(ctx context.Context) (*clientv3.AuthUserAddResponse, error) {
		return k.auth.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
	})
	if err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		return fmt.Errorf("add the user %s: %w", name, err)
	}
	err = call(ctx, func(ctx context.Context) (*clientv3.AuthUserGrantRoleResponse, error) {
		return k.auth.UserGrantRole(ctx, name, name)
	})
	if err != nil {
		return fmt.Errorf("grant the user %s its role: %w", name, err)
	}
	return nil
}

// call bounds one call of etcd. Each permission of a user needs one.
func call[R any](ctx context.Context, f func(context.Context) (R, error)) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := f(ctx)
	return err
}

func (k *Keeper) reconcile(ctx context.Context, ids store.Broker) error {
	if k.kept == nil {
		kept, err := k.read(ctx)
		if err != nil {
			return err
		}
		k.kept = kept
	}
	wanted, err := k.wanted(ctx, ids)
	if err != nil {
		return err
	}
	for user, had := range k.kept {
		if _, ok := wanted[user]; ok {
			continue
		}
		if name, ok := strings.CutPrefix(user, NodeUser); ok {
			k.release(name, had)
		}
		if err := k.remove(ctx, user); err != nil {
			return err
		}
		delete(k.kept, user)
		k.log.Info("etcd user deleted", "user", user)
	}
	for user, permissions := range wanted {
		slices.SortFunc(permissions, compare) // the order of etcd
		have, ok := k.kept[user]
		if ok && slices.Equal(have, permissions) {
			continue
		}
		if err := k.set(ctx, user, have, permissions); err != nil {
			return err
		}
		k.kept[user] = permissions
		k.log.Info("etcd user created", "user", user)
	}
	return nil
}

func (k *Keeper) release(name string, had []permission) {
	if id, ok := idOf(had); ok {
		k.released[name] = id
	}
	delete(k.lost, name)
}

func idOf(permissions []permission) (uint32, bool) {
	for _, p := range permissions {
		if id, ok := parseID(p.key); ok {
			return id, true
		}
	}
	return 0, false
}

func (k *Keeper) wanted(ctx context.Context, ids store.Broker) (map[string][]permission, error) {
	records, err := k.records(ctx) // before the nodes: a node gets its ID after it exists
	if err != nil {
		return nil, err
	}
	nodes, err := k.list(ctx, nodePrefix)
	if err != nil {
		return nil, err
	}
	clients, err := k.list(ctx, ClientPrefix)
	if err != nil {
		return nil, err
	}
	for _, kv := range nodes {
		if err := k.mend(ctx, ids, records, strings.TrimPrefix(kv.Key, nodePrefix)); err != nil {
			return nil, err
		}
	}
	if err := k.sweep(ctx, ids, records, nodes); err != nil {
		return nil, err
	}
	given := identitiesOf(records)
	k.forgetReleased(given)
	wanted := make(map[string][]permission)
	problems := make(map[string]bool)
	for _, kv := range nodes {
		name := strings.TrimPrefix(kv.Key, nodePrefix)
		if err := checkName("node", name); err != nil {
			k.problem(problems, "node "+name, err)
			continue
		}
		id, ok := given.of[name]
		if !ok {
			if id, err = k.give(ctx, ids, given, name); err != nil {
				return nil, err
			}
		}
		delete(k.lost, name)
		wanted[NodeUser+name] = nodePermissions(name, id)
	}
	for _, kv := range clients {
		name := strings.TrimPrefix(kv.Key, ClientPrefix)
		var c Client
		err := json.Unmarshal(kv.Value, &c)
		if err == nil {
			err = CheckClient(name, c)
		}
		if err != nil {
			k.problem(problems, "client "+name, err)
			continue
		}
		wanted[ClientUser+name] = clientPermissions(c)
	}
	k.problems = problems
	return wanted, nil
}

// forgetReleased forgets released IDs that another node has, so that each ID is released at most
// once.
func (k *Keeper) forgetReleased(given identities) {
	for name, id := range given.of {
		maps.DeleteFunc(k.released, func(left string, had uint32) bool { return had == id && left != name })
	}
}

func (k *Keeper) problem(now map[string]bool, what string, err error) {
	text := what + ": " + err.Error()
	now[text] = true
	if !k.problems[text] {
		k.problems[text] = true
		k.log.Error("invalid access record ignored: fix or remove it", "record", what, "error", err)
	}
}

type identities struct {
	of   map[string]uint32 // the lowest ID of each node
	used map[uint32]bool
}

// list returns the keys with the prefix. It fails if etcd has lost its data since the last read:
// the missing nodes have not left, and must get their IDs back.
func (k *Keeper) list(ctx context.Context, prefix string) ([]store.KV, error) {
	kvs, revision, err := k.etcd.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	before := k.revision
	if k.revision = revision; revision < before {
		return nil, fmt.Errorf("etcd has lost its data: its revision went from %d to %d", before, revision)
	}
	return kvs, nil
}

func (k *Keeper) records(ctx context.Context) (map[uint32][]byte, error) {
	kvs, err := k.list(ctx, idPrefix)
	if err != nil {
		return nil, err
	}
	records := make(map[uint32][]byte, len(kvs))
	for _, kv := range kvs {
		if id, ok := parseID(kv.Key); ok {
			records[id] = kv.Value
		}
	}
	return records, nil
}

// mend repairs a record that does not contain the owner of its ID. Only the node itself can have
// written it: with another node's name to get that node's ID, or without a name to get one more ID.
func (k *Keeper) mend(ctx context.Context, ids store.Broker, records map[uint32][]byte, name string) error {
	for _, p := range k.kept[NodeUser+name] {
		id, isID := parseID(p.key)
		record, exists := records[id]
		if owner := ownerOf(record); !isID || !exists || owner.GetName() == name && owner.GetId() == id {
			continue
		}
		right, err := recordOf(name, id)
		if err != nil {
			return err
		}
		k.log.Warn("record of a node has a wrong ID, fixing it", "node", name, "id", id, "record", string(record))
		if _, err := ids.CompareAndSwap(ctx, idKey(id), record, right); err != nil { // otherwise it changed again, and a watch event follows
			return fmt.Errorf("fix the record of node %s: %w", name, err)
		}
		records[id] = right
	}
	return nil
}

// sweep removes the records of missing nodes, to which other nodes would keep tunnels and routes.
// KSR removes the record with its node, but not an ID assigned meanwhile.
func (k *Keeper) sweep(ctx context.Context, ids store.Broker, records map[uint32][]byte, nodes []store.KV) error {
	exists := make(map[string]bool, len(nodes))
	for _, kv := range nodes {
		exists[strings.TrimPrefix(kv.Key, nodePrefix)] = true
	}
	for id, record := range records {
		name := ownerOf(record).GetName()
		if name == "" || exists[name] {
			continue
		}
		removed, err := ids.CompareAndDelete(ctx, idKey(id), record)
		if err != nil {
			return fmt.Errorf("release the ID %d of the removed node %s: %w", id, name, err)
		}
		if removed { // otherwise it changed, and a watch event follows
			delete(records, id)
			k.log.Info("node not found, releasing its ID", "node", name, "id", id)
		}
	}
	return nil
}

func identitiesOf(records map[uint32][]byte) identities {
	i := identities{make(map[string]uint32), make(map[uint32]bool)}
	for id, record := range records {
		i.used[id] = true
		name := ownerOf(record).GetName()
		if had, ok := i.of[name]; name != "" && (!ok || id < had) {
			i.of[name] = id
		}
	}
	return i
}

func ownerOf(record []byte) *vppnode.VppNode {
	owner := &vppnode.VppNode{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(record, owner); err != nil {
		return nil
	}
	return owner
}

func recordOf(name string, id uint32) ([]byte, error) {
	data, err := (protojson.MarshalOptions{UseProtoNames: true}).Marshal(&vppnode.VppNode{Id: id, Name: name})
	if err != nil {
		return nil, fmt.Errorf("ID of node %s: %w", name, err)
	}
	return data, nil
}

// give claims the previous ID of the node, or the first free one.
func (k *Keeper) give(ctx context.Context, ids store.Broker, in identities, name string) (uint32, error) {
	try := func(id uint32) (bool, error) {
		data, err := recordOf(name, id)
		if err != nil {
			return false, err
		}
		in.used[id] = true
		put, err := ids.PutIfNotExists(ctx, idKey(id), data)
		if err != nil {
			return false, fmt.Errorf("assign to node %s the ID %d: %w", name, id, err)
		}
		if !put {
			return false, nil
		}
		in.of[name] = id
		delete(k.released, name)
		k.log.Info("node joined, ID allocated", "node", name, "id", id)
		return true, nil
	}
	for _, earlier := range []map[string]uint32{k.lost, k.released} {
		if id, ok := earlier[name]; ok && !in.used[id] {
			if put, err := try(id); put || err != nil {
				return id, err
			}
		}
	}
	reserved := slices.Collect(maps.Values(k.lost))
	for id := uint32(1); ; id++ {
		if in.used[id] || slices.Contains(reserved, id) {
			continue
		}
		if put, err := try(id); put || err != nil {
			return id, err
		}
	}
}

// read returns the managed users. A user without its role has no permissions.
func (k *Keeper) read(ctx context.Context) (map[string][]permission, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // two calls per user
	defer cancel()
	users, err := k.auth.UserList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the users of etcd: %w", err)
	}
	roles, err := k.auth.RoleList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the roles of etcd: %w", err)
	}
	kept := make(map[string][]permission)
	for _, name := range append(slices.Clone(users.Users), roles.Roles...) {
		if strings.HasPrefix(name, NodeUser) || strings.HasPrefix(name, ClientUser) {
			kept[name] = nil
		}
	}
	for _, name := range roles.Roles {
		if _, ours := kept[name]; !ours || !slices.Contains(users.Users, name) {
			continue
		}
		user, err := k.auth.UserGet(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("read the user %s of etcd: %w", name, err)
		}
		if !slices.Contains(user.Roles, name) {
			continue
		}
		role, err := k.auth.RoleGet(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("read the role %s of etcd: %w", name, err)
		}
		for _, p := range role.Perm {
			kept[name] = append(kept[name], permission{string(p.Key), string(p.RangeEnd), p.PermType == clientv3.PermReadWrite})
		}
		slices.SortFunc(kept[name], compare)
	}
	return kept, nil
}

func compare(a, b permission) int { return strings.Compare(a.key, b.key) }

func (k *Keeper) set(ctx context.Context, user string, have, wanted []permission) error {
	if len(have) == 0 { // an interrupted set or remove may have left a role with any permissions
		if err := k.deleteRole(ctx, user); err != nil {
			return err
		}
	}
	err := call(ctx, func(ctx context.Context) (*clientv3.AuthRoleAddResponse, error) { return k.auth.RoleAdd(ctx, user) })
	if err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return fmt.Errorf("add the role %s: %w", user, err)
	}
	for _, p := range have {
		if slices.Contains(wanted, p) {
			continue
		}
		err := call(ctx, func(ctx context.Context) (*clientv3.AuthRoleRevokePermissionResponse, error) {
			return k.auth.RoleRevokePermission(ctx, user, p.key, p.end)
		})
		if err != nil && !errors.Is(err, rpctypes.ErrPermissionNotGranted) {
			return fmt.Errorf("revoke a permission of the role %s: %w", user, err)
		}
	}
	for _, p := range wanted {
		err := call(ctx, func(ctx context.Context) (*clientv3.AuthRoleGrantPermissionResponse, error) {
			return k.auth.RoleGrantPermission(ctx, user, p.key, p.end, p.kind())
		})
		if err != nil {
			return fmt.Errorf("grant the role %s a permission: %w", user, err)
		}
	}
	return k.addUser(ctx, user)
}

func (k *Keeper) remove(ctx context.Context, user string) error {
	err := call(ctx, func(ctx context.Context) (*clientv3.AuthUserDeleteResponse, error) {
		return k.auth.UserDelete(ctx, user)
	})
	if err != nil && !errors.Is(err, rpctypes.ErrUserNotFound) {
		return fmt.Errorf("delete the user %s: %w", user, err)
	}
	return k.deleteRole(ctx, user)
}

func (k *Keeper) deleteRole(ctx context.Context, user string) error {
	err := call(ctx, func(ctx context.Context) (*clientv3.AuthRoleDeleteResponse, error) {
		return k.auth.RoleDelete(ctx, user)
	})
	if err != nil && !errors.Is(err, rpctypes.ErrRoleNotFound) {
		return fmt.Errorf("delete the role %s: %w", user, err)
	}
	return nil
}
