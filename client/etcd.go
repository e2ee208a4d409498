package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/rpc"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/encoding/protojson"
)

// NewEtcd returns a client of a node that works through etcd. It connects in the background; the
// error is about the configuration.
func NewEtcd(node string, config etcd.Config) (*Client, error) {
	if node == "" || strings.Contains(node, "/") {
		return nil, fmt.Errorf("%q is not the name of a node", node)
	}
	db, err := etcd.New(config)
	if err != nil {
		return nil, err
	}
	return &Client{&etcdTransport{node: node, prefix: models.NodePrefix(node), db: db}}, nil
}

type etcdTransport struct {
	node   string
	prefix string // of the node's keys
	db     *etcd.Store
}

func (e *etcdTransport) close() error { return e.db.Close() }

func (e *etcdTransport) commit(ctx context.Context, c *change) (*Result, error) {
	if c.revert {
		return nil, ErrNoRevert
	}
	result := c.result()
	keys, err := e.write(ctx, c, result)
	if err != nil {
		return nil, err
	}
	if c.async || len(keys) == 0 {
		return result, nil
	}
	want := expected{revisions: make(map[string]int64), asOf: result.Revision}
	for _, key := range result.Keys {
		want.revisions[key] = result.Revision
	}
	statuses, err := await(ctx, e, keys, want.met)
	if err != nil {
		return result, fmt.Errorf("written to etcd as revision %d, but %w: the agent of %s has not answered: %w", result.Revision, ErrUnanswered, e.node, err)
	}
	return result, result.read(statuses)
}

func (e *etcdTransport) write(ctx context.Context, c *change, result *Result) (selection, error) {
	for {
		changes, keys, err := e.changes(c)
		if err != nil {
			return nil, err
		}
		var condition etcd.Unchanged
		if c.replace {
			condition.Prefix = e.prefix + valuePrefix
			kvs, revision, err := e.db.List(ctx, condition.Prefix)
			if err != nil {
				return nil, err
			}
			condition.Revision = revision
			for _, kv := range kvs {
				if key := strings.TrimPrefix(kv.Key, e.prefix); c.values[key] == nil {
					changes, keys = append(changes, store.Change{KV: store.KV{Key: kv.Key}, Deleted: true}), append(keys, key)
				}
			}
		}
		revision, ok, err := e.db.BatchIf(ctx, changes, condition)
		if ok || err != nil {
			result.Revision = revision
			return keys, err
		}
	}
}

func (e *etcdTransport) changes(c *change) (changes []store.Change, keys selection, err error) {
	for _, key := range c.keys() {
		kv := store.KV{Key: e.prefix + key}
		if value := c.values[key]; value != nil {
			if kv.Value, err = models.Marshal(value); err != nil {
				return nil, nil, &RequestError{fmt.Errorf("value of %s: %w", key, err)}
			}
		}
		changes, keys = append(changes, store.Change{KV: kv, Deleted: c.values[key] == nil}), append(keys, key)
	}
	return changes, keys, nil
}

// read adds the statuses to the result and returns a *TransactionError if any failed.
func (r *Result) read(statuses []*Status) error {
	e := &TransactionError{Revision: r.Revision}
	for _, s := range statuses {
		if s.Transaction != nil && (r.Transaction == nil || *r.Transaction < s.GetTransaction()) {
			r.Transaction = s.Transaction
		}
		for _, warning := range s.GetWarnings() {
			r.Warnings = append(r.Warnings, keyOf(s)+": "+warning)
		}
		for _, v := range parts(s) {
			if isError(v.GetState()) || v.GetState() == pb.ValueState_NONEXISTENT && v.GetError() != "" {
				e.Items = append(e.Items, &rpc.TransactionError_Item{Key: v.GetKey(), Operation: v.GetLastOperation(), Cause: v.GetError(), State: v.GetState()})
			}
		}
	}
	if len(e.Items) == 0 {
		return nil
	}
	e.Transaction = r.Transaction
	return e
}

func (e *etcdTransport) own(ctx context.Context, _ selection) ([]Value, error) {
	kvs, _, err := e.db.List(ctx, e.prefix+valuePrefix)
	if err != nil {
		return nil, err
	}
	var values []Value
	var mistakes []error
	for _, kv := range kvs {
		key := strings.TrimPrefix(kv.Key, e.prefix)
		msg, _, err := models.Decode(key, kv.Value)
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		values = append(values, Value{key, msg})
	}
	if len(mistakes) > 0 {
		return values, &UndecodableError{errors.Join(mistakes...)}
	}
	return values, nil
}

func (e *etcdTransport) merged(context.Context, selection) ([]Value, error) {
	return nil, ErrNotMerged
}

func (e *etcdTransport) expected(ctx context.Context, keys []string) (expected, error) {
	kvs, revision, err := e.db.List(ctx, e.prefix+commonPrefix(keys))
	want := expected{revisions: make(map[string]int64), asOf: revision}
	for _, kv := range kvs {
		want.revisions[strings.TrimPrefix(kv.Key, e.prefix)] = kv.Revision
	}
	return want, err
}

func commonPrefix(keys []string) string {
	if len(keys) == 0 {
		return valuePrefix
	}
	first, last := slices.Min(keys), slices.Max(keys)
	n := 0
	for n < min(len(first), len(last)) && first[n] == last[n] {
		n++
	}
	return first[:n]
}

func (e *etcdTransport) watch(ctx context.Context, selected selection, follow bool) iter.Seq2[[]*Status, error] {
	return func(yield func([]*Status, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		statusPrefix := e.prefix + models.StatusPrefix
		prefix := statusPrefix + commonPrefix(selected)
		kvs, revision, err := e.db.List(ctx, prefix)
		if err != nil {
			yield(nil, err)
			return
		}
		missing := make(map[string]bool)
		for _, key := range selected.keys() {
			missing[key] = true
		}
		var batch []*Status
		for _, kv := range kvs {
			if key := strings.TrimPrefix(kv.Key, statusPrefix); selected.has(key) {
				batch = append(batch, decodeStatus(key, kv.Value))
				delete(missing, key)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(missing)) {
			batch = append(batch, &Status{Value: &pb.ValueStatus{Key: key}})
		}
		if !yield(batch, nil) || !follow {
			return
		}
		changes, err := e.db.Watch(ctx, revision, prefix)
		if err != nil {
			yield(nil, err)
			return
		}
		for changed := range changes {
			batch := make([]*Status, 0, len(changed.Changes))
			for _, c := range changed.Changes {
				key := strings.TrimPrefix(c.Key, statusPrefix)
				switch {
				case !selected.has(key):
				case c.Deleted:
					batch = append(batch, &Status{Value: &pb.ValueStatus{Key: key, State: pb.ValueState_REMOVED, LastOperation: pb.TxnOperation_DELETE}})
				default:
					batch = append(batch, decodeStatus(key, c.Value))
				}
			}
			if !yield(batch, changed.Err) || changed.Err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// decodeStatus decodes a status. If it is invalid, the returned status has the error.
func decodeStatus(key string, data []byte) *Status {
	s := &Status{}
	err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, s)
	if is := keyOf(s); err == nil && is != key {
		err = fmt.Errorf("its key is %q", is)
	}
	if err != nil {
		return &Status{Value: &pb.ValueStatus{Key: key, Error: fmt.Sprintf("invalid status in etcd: %v", err)}}
	}
	return s
}
