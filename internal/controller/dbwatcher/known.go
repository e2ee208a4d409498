package dbwatcher

import (
	"hash/maphash"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// known is the last state read from the database, as sent to the event loop.
type known struct {
	nodePrefix string
	// standalone: no Kubernetes state is read
	standalone bool
	// mirrored returns the value of a key in the mirror, or nil.
	mirrored func(fullKey string) []byte
	log      *slog.Logger
	values   map[string]proto.Message
	// encoded holds hashes of the encoded values. Decoding dominates the cost of a snapshot, and
	// most values equal the previous ones.
	encoded map[string]uint64
	// warnings of the decoded values; most have none
	warnings map[string][]string
	// revisions of all keys of the last snapshot and of later changes
	revisions map[string]int64
	troubles  troubles
}

func newKnown(node string, log *slog.Logger) *known {
	return &known{
		nodePrefix: models.NodePrefix(node),
		mirrored:   func(string) []byte { return nil },
		log:        log,
		values:     make(map[string]proto.Message),
		encoded:    make(map[string]uint64),
		warnings:   make(map[string][]string),
		revisions:  make(map[string]int64),
	}
}

// seed of the hashes
var seed = maphash.MakeSeed()

func (k *known) prefixes() []string {
	if k.standalone {
		return []string{k.nodePrefix}
	}
	return []string{models.KSRPrefix, k.nodePrefix}
}

func (k *known) prefixOf(key string) string {
	if strings.HasPrefix(key, models.KSRPrefix) {
		return models.KSRPrefix
	}
	return k.nodePrefix
}

// item is a key that concerns this node.
type item struct {
	// key without the prefix
	key string
	// resource is nil for external configuration.
	resource *kubestate.Resource
}

// item parses a full key. ok is false if the key does not concern this node.
func (k *known) item(fullKey string) (i item, ok bool) {
	if key, isKSR := strings.CutPrefix(fullKey, models.KSRPrefix); isKSR {
		resource, ok := kubestate.ForKey(key)
		return item{key, &resource}, ok
	}
	key, isNode := strings.CutPrefix(fullKey, k.nodePrefix)
	if !isNode || strings.HasPrefix(key, models.StatusPrefix) || strings.HasPrefix(key, models.InterfaceStatePrefix) ||
		strings.HasPrefix(key, models.LigatoStatusPrefix) ||
		strings.HasPrefix(key, models.ResyncPrefix) || strings.HasPrefix(key, models.CheckPrefix) {
		return item{}, false
	}
	return item{key: key}, true
}

func (i item) unmarshal(data []byte) (value proto.Message, warnings []string, err error) {
	if i.resource != nil {
		if value, err = i.resource.Unmarshal(data); err == nil {
			err = i.resource.Check(i.key, value)
		}
		return value, nil, err
	}
	value, unknown, err := models.Decode(i.key, data)
	if err == nil {
		err = controller.ValidateDirectives(i.key, value)
	}
	for _, field := range unknown {
		warnings = append(warnings, field.Err().Error()+" is left out")
	}
	return value, warnings, err
}

// snapshot is the decoded content of the database or the mirror.
type snapshot struct {
	resync    *controller.DBResync
	valid     []store.KV
	undecoded map[string]bool
	given     map[string]Value
}

// replace replaces the known values by the pairs.
func (k *known) replace(kvs []store.KV) snapshot {
	s := snapshot{
		resync:    &controller.DBResync{State: controller.KubeState{}, External: controller.ExternalConfig{}},
		undecoded: make(map[string]bool),
		given:     make(map[string]Value),
	}
	for _, r := range kubestate.All() {
		s.resync.State[r.Keyword] = make(map[string]proto.Message)
	}
	values, revisions := make(map[string]proto.Message, len(kvs)), make(map[string]int64, len(kvs))
	encoded := make(map[string]uint64, len(kvs))
	for n, d := range k.decodeAll(kvs) {
		kv, i := kvs[n], d.item
		revisions[kv.Key] = kv.Revision
		if !d.ok {
			continue
		}
		value, hash, err := k.note(kv, d)
		if err == nil {
			s.valid = append(s.valid, kv)
			encoded[kv.Key] = hash
		} else {
			k.reportUndecoded(kv.Key, err)
			s.undecoded[kv.Key] = true
			value = k.before(i, kv.Key)
		}
		if i.resource == nil {
			s.given[i.key] = Value{Revision: kv.Revision, Err: err, Kept: err != nil && value != nil, Warnings: k.warnings[kv.Key]}
		}
		if value == nil {
			continue
		}
		values[kv.Key] = value
		if i.resource != nil {
			s.resync.State[i.resource.Keyword][i.key] = value
		} else {
			s.resync.External[i.key] = value
		}
	}
	k.values, k.revisions, k.encoded = values, revisions, encoded
	k.troubles.keep(revisions)
	return s
}

// decoded is the result of decoding one pair.
type decoded struct {
	item
	ok       bool // the key concerns this node
	hash     uint64
	value    proto.Message
	warnings []string
	err      error
	known    bool // equal to the known value
}

// decodeAll decodes pairs on all processors: it takes a large part of the time until the first
// resync.
func (k *known) decodeAll(kvs []store.KV) []decoded {
	list := make([]decoded, len(kvs))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			const share = 64
			for first := int(next.Add(share)) - share; first < len(kvs); first = int(next.Add(share)) - share {
				for n := first; n < min(first+share, len(kvs)); n++ {
					list[n] = k.decode(kvs[n])
				}
			}
		})
	}
	workers.Wait()
	return list
}

func (k *known) decode(kv store.KV) (d decoded) {
	if d.item, d.ok = k.item(kv.Key); !d.ok {
		return d
	}
	d.hash = maphash.Bytes(seed, kv.Value)
	if value := k.values[kv.Key]; value != nil {
		if before, ok := k.encoded[kv.Key]; ok && before == d.hash {
			d.value, d.known = value, true
			return d
		}
	}
	d.value, d.warnings, d.err = d.unmarshal(kv.Value)
	return d
}

// note records the problems of a pair and returns its value.
func (k *known) note(kv store.KV, d decoded) (value proto.Message, hash uint64, err error) {
	if d.known {
		return d.value, d.hash, nil
	}
	if d.resource != nil {
		k.troubles.note(kv.Key, d.err)
	}
	delete(k.warnings, kv.Key)
	if len(d.warnings) > 0 && d.err == nil {
		k.warnings[kv.Key] = d.warnings
		k.log.Warn("Value in the database has unknown fields", "key", kv.Key, "warnings", d.warnings)
	}
	return d.value, d.hash, d.err
}

// before returns the last value that could be decoded, possibly from the mirror; nil: none.
func (k *known) before(i item, fullKey string) proto.Message {
	if value := k.values[fullKey]; value != nil {
		return value
	}
	data := k.mirrored(fullKey)
	if data == nil {
		return nil
	}
	value, _, err := i.unmarshal(data)
	if err != nil {
		return nil
	}
	return value
}

func (k *known) reportUndecoded(fullKey string, err error) {
	k.log.Warn("Value in the database ignored", "key", fullKey, "error", err)
}

// news is the effect of changes.
type news struct {
	kube []*controller.KubeStateChange
	// external holds the changes of the node's configuration. All changes of one etcd transaction
	// are in one news.
	external controller.ExternalConfig
	given    map[string]Value
	mirrored []store.Change
}

func (k *known) update(changes []store.Change) news {
	n := news{external: make(controller.ExternalConfig), given: make(map[string]Value)}
	for _, change := range changes {
		if change.Deleted {
			delete(k.revisions, change.Key)
		} else {
			k.revisions[change.Key] = change.Revision
		}
		i, ok := k.item(change.Key)
		if !ok {
			continue
		}
		var value proto.Message
		if !change.Deleted {
			var hash uint64
			var err error
			if value, hash, err = k.note(change.KV, k.decode(change.KV)); err != nil {
				delete(k.encoded, change.Key) // the known value is an older one
				k.reportUndecoded(change.Key, err)
				if i.resource == nil {
					n.given[i.key] = Value{Revision: change.Revision, Err: err, Kept: k.values[change.Key] != nil}
				}
				continue
			}
			k.encoded[change.Key] = hash
		} else {
			delete(k.encoded, change.Key)
			delete(k.warnings, change.Key)
			k.troubles.note(change.Key, nil)
		}
		n.mirrored = append(n.mirrored, change)
		if i.resource == nil {
			n.given[i.key] = Value{Revision: change.Revision, Deleted: change.Deleted, Warnings: k.warnings[change.Key]}
		}
		prev := k.values[change.Key]
		if prev == nil && value == nil || prev != nil && value != nil && proto.Equal(prev, value) {
			if _, told := n.external[i.key]; i.resource == nil && !told {
				n.given[i.key] = Value{Revision: change.Revision, Deleted: change.Deleted, Warnings: k.warnings[change.Key], Same: true}
			}
			continue
		}
		if value == nil {
			delete(k.values, change.Key)
		} else {
			k.values[change.Key] = value
		}
		if i.resource == nil {
			n.external[i.key] = value
			continue
		}
		n.kube = append(n.kube, &controller.KubeStateChange{Key: i.key, Resource: i.resource.Keyword, PrevValue: prev, NewValue: value})
	}
	return n
}

// contradicts reports whether the snapshot is from another database than the one read up to the
// revision: unchanged keys have other revisions.
func (k *known) contradicts(kvs []store.KV, revision int64) bool {
	return slices.ContainsFunc(kvs, func(kv store.KV) bool {
		return kv.Revision <= revision && k.revisions[kv.Key] != kv.Revision
	})
}

// missing returns the known values whose keys the snapshot lacks.
func (k *known) missing(kvs []store.KV) map[string]proto.Message {
	missing := maps.Clone(k.values)
	for _, kv := range kvs {
		delete(missing, kv.Key)
	}
	return missing
}

// unpublished returns the known values of nodes whose addresses the snapshot lacks although it has
// their IDs: KSR has restored the IDs, but the agents have not restored the rest.
func (k *known) unpublished(kvs []store.KV) map[string]proto.Message {
	found := make(map[string]proto.Message)
	for _, kv := range kvs {
		if value := k.values[kv.Key]; isBare(kv.Value, value) {
			found[kv.Key] = value
		}
	}
	return found
}

// isBare reports whether the stored node has only an ID while the known one has addresses.
func isBare(stored []byte, value proto.Message) bool {
	known, ok := value.(*vppnode.VppNode)
	if !ok || !hasAddresses(known) {
		return false
	}
	var v vppnode.VppNode
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(stored, &v)
	return err == nil && v.GetName() == known.GetName() && !hasAddresses(&v)
}

func hasAddresses(v *vppnode.VppNode) bool {
	return len(v.GetIpAddresses()) > 0 || v.GetIpAddress() != ""
}
