package nodesync

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/encoding/protojson"
)

// IDPrefix is the prefix of VppNodes in etcd. The ID follows.
const IDPrefix = models.KSRPrefix + kubestate.VppNodePrefix

func idKey(id uint32) string { return models.KSRPrefix + kubestate.VppNodeKey(id) }

// ErrNoNodeID is wrapped if the node cannot get an ID. It is fatal for the agent.
var ErrNoNodeID = errors.New("this node has no ID")

// allocateTimeout bounds the allocation of an ID. It is below the deadline of the startup resync.
const allocateTimeout = 20 * time.Second

// allocate returns the node's ID, or claims the first free one. Each round is decided by an atomic
// put:
//
//  1. list the IDs in use;
//  2. put the first free one, or the next if another node was faster;
//  3. if the result of a put is unknown, start over: the list will contain it.
func allocate(ctx context.Context, db store.Broker, nodeName string) (*vppnode.VppNode, error) {
	ctx, cancel := context.WithTimeout(ctx, allocateTimeout)
	defer cancel()
	for {
		claimed, err := allocateOnce(ctx, db, nodeName)
		if err == nil {
			return claimed, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, and claiming one in etcd under %s failed: check that etcd is up and reachable (%w)", ErrNoNodeID, IDPrefix, err)
		case <-time.After(allocateRetry):
		}
	}
}

var allocateRetry = 500 * time.Millisecond

func allocateOnce(ctx context.Context, db store.Broker, nodeName string) (*vppnode.VppNode, error) {
	kvs, _, err := db.List(ctx, IDPrefix)
	if err != nil {
		return nil, err
	}
	used := make(map[uint32]bool)
	for _, kv := range kvs {
		id, err := strconv.ParseUint(strings.TrimPrefix(kv.Key, IDPrefix), 10, 32)
		if err != nil {
			continue
		}
		used[uint32(id)] = true
		if owner, err := unmarshal(kv.Value); err == nil && owner.GetName() == nodeName {
			return owner, nil
		}
	}
	for id := uint32(1); ; id++ {
		if used[id] {
			continue
		}
		claim := &vppnode.VppNode{Id: id, Name: nodeName}
		put, err := db.PutIfNotExists(ctx, idKey(id), marshal(claim))
		if err != nil {
			return nil, err
		}
		if put {
			return claim, nil
		}
	}
}

// publishTimeout bounds a publication, for which the event loop waits.
const publishTimeout = 3 * time.Second

// swap replaces this node's VppNode in etcd. It returns a takenError if another node has the ID. A
// record that cannot be decoded has no owner.
func swap(ctx context.Context, db store.Broker, next *vppnode.VppNode) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	key := idKey(next.GetId())
	for {
		kv, exists, err := db.Get(ctx, key)
		if err != nil {
			return err
		}
		var done bool
		if !exists {
			done, err = db.PutIfNotExists(ctx, key, marshal(next))
		} else {
			owner, parseErr := unmarshal(kv.Value)
			if parseErr == nil && owner.GetName() != next.GetName() {
				return &takenError{next.GetId(), owner.GetName()}
			}
			done, err = db.CompareAndSwap(ctx, key, kv.Value, marshal(next))
		}
		if err != nil || done {
			return err
		}
	}
}

type takenError struct {
	id uint32
	by string
}

func (e *takenError) Error() string {
	return fmt.Sprintf("ID %d of this node is now used by node %s: %v; restart the agent to get a new ID, or remove %s from etcd if that node does not exist",
		e.id, e.by, ErrNoNodeID, idKey(e.id))
}

func (*takenError) Unwrap() error { return ErrNoNodeID }

func marshal(v *vppnode.VppNode) []byte {
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(v)
	if err != nil {
		panic(err) // only for invalid UTF-8, which names cannot contain
	}
	return data
}

func unmarshal(data []byte) (*vppnode.VppNode, error) {
	v := &vppnode.VppNode{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, v); err != nil {
		return nil, err
	}
	return v, nil
}
