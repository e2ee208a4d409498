package scale

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// contivConf allows 32 768 nodes.
const contivConf = `
ipamConfig:
  podSubnetCIDR: 10.128.0.0/9
  podSubnetOneNodePrefixLen: 24
  vxlanCIDR: 172.24.0.0/16
`

// cluster is the state that KSR and the other agents write. Nodes are numbered from 1; the numbers
// are their IDs.
type cluster struct {
	tb          testing.TB
	db          *memory.Store
	nodes       int
	podsPerNode int
}

func newCluster(tb testing.TB, nodes, podsPerNode int) *cluster {
	tb.Helper()
	c := &cluster{tb: tb, db: memory.New(), nodes: nodes, podsPerNode: podsPerNode}
	changes := []store.Change{c.put("k8s/namespace/default", &namespace.Namespace{Name: "default"})}
	for id := 1; id <= nodes; id++ {
		changes = append(changes, c.joins(id)...)
		for i := range podsPerNode {
			changes = append(changes, c.putPod(id, i, ""))
		}
	}
	c.write(changes...)
	return c
}

func (c *cluster) write(changes ...store.Change) {
	c.tb.Helper()
	if err := c.db.Batch(context.Background(), changes); err != nil {
		c.tb.Fatal(err)
	}
}

func (c *cluster) put(key string, value proto.Message) store.Change {
	data, err := kubestate.Marshal(value)
	if err != nil {
		c.tb.Fatal(err)
	}
	return store.Change{KV: store.KV{Key: models.KSRPrefix + key, Value: data}}
}

func remove(change store.Change) store.Change {
	return store.Change{KV: store.KV{Key: change.Key}, Deleted: true}
}

func nodeName(id int) string { return fmt.Sprintf("node%d", id) }

func address(base string, offset int) netip.Addr {
	b := netip.MustParseAddr(base).As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(offset))
	return netip.AddrFrom4(b)
}

func nodeIP(id int) netip.Addr   { return address("172.16.0.0", id) }
func podIP(id, i int) netip.Addr { return address("10.128.0.0", id<<8+2+i) }

func (c *cluster) joins(id int) []store.Change {
	return []store.Change{
		c.put("k8s/node/"+nodeName(id), &node.Node{
			Name:      nodeName(id),
			Addresses: []*node.NodeAddress{{Type: node.NodeAddress_NodeInternalIP, Address: nodeIP(id).String()}, {Type: node.NodeAddress_NodeHostName, Address: nodeName(id)}},
			NodeInfo:  &node.NodeInfo{KernelVersion: "6.1.0", OsImage: "Debian", KubeletVersion: "v1.34.0", OperatingSystem: "linux", Architecture: "amd64"},
			Labels:    map[string]string{"kubernetes.io/hostname": nodeName(id), "kubernetes.io/os": "linux"},
		}),
		c.put(fmt.Sprint("allocatedIDs/", id), &vppnode.VppNode{Id: uint32(id), Name: nodeName(id), IpAddresses: []string{nodeIP(id).String() + "/16"}}),
	}
}

func podName(id, i int) string { return fmt.Sprintf("app-%d-%d", id, i) }

// putPod returns the change that writes the i-th pod of a node. note is any text.
func (c *cluster) putPod(id, i int, note string) store.Change {
	p := podOf(id, i)
	p.Annotations = map[string]string{"note": note}
	return c.put("k8s/pod/"+p.GetName()+"/namespace/default", p)
}

func (c *cluster) putPodWith(id, i int, labels map[string]string) store.Change {
	p := podOf(id, i)
	maps.Copy(p.Labels, labels)
	return c.put("k8s/pod/"+p.GetName()+"/namespace/default", p)
}

func podOf(id, i int) *pod.Pod {
	name := podName(id, i)
	return &pod.Pod{
		Name: name, Namespace: "default", NodeName: nodeName(id), Phase: pod.Pod_RUNNING,
		IpAddress: podIP(id, i).String(), IpAddresses: []string{podIP(id, i).String()}, HostIpAddress: nodeIP(id).String(),
		Labels:    map[string]string{"app": fmt.Sprintf("app-%d", i%10), "pod-template-hash": "75cf8f9b9d"},
		Container: []*pod.Pod_Container{{Name: "main", Port: []*pod.Pod_Container_Port{{Name: "http", ContainerPort: 8080}}}},
		Uid:       "0b5a2a0e-1f6e-4f0e-9d6d-" + name,
	}
}
