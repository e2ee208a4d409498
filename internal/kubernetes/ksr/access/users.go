package access

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// Root is the user with all permissions.
	Root = "root"
	// NodeUser and ClientUser are the prefixes of managed users. Other users are not changed.
	NodeUser   = "node:"
	ClientUser = "client:"
	// SignerName is the signer of these users' certificates (package signer).
	SignerName = "contiv.io/etcd-client"
	// ClientPrefix is the prefix of Clients. The name follows.
	ClientPrefix = "/contiv-ksr/clients/"
	// AllNodes in a Client stands for every current and future node.
	AllNodes = "*"
)

const (
	nodePrefix = models.KSRPrefix + "k8s/node/"
	idPrefix   = models.KSRPrefix + kubestate.VppNodePrefix
)

// Client is a program that configures nodes. It is the JSON value of ClientPrefix + name.
type Client struct {
	Nodes []string `json:"nodes"`
}

// Marshal returns the client as JSON.
func (c Client) Marshal() []byte {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return data
}

// CheckClient returns an error if the name or the nodes of a client are invalid.
func CheckClient(name string, c Client) error {
	if err := checkName("client", name); err != nil {
		return err
	}
	if len(c.Nodes) == 0 {
		return fmt.Errorf("client %s: set the nodes that it may configure, or %q for all", name, AllNodes)
	}
	for _, node := range c.Nodes {
		if node == AllNodes {
			continue
		}
		if err := checkName("node", node); err != nil {
			return fmt.Errorf("client %s: %w", name, err)
		}
	}
	return nil
}

// checkName rejects names that would be prefixes of other owners' keys.
func checkName(what, name string) error {
	if name == "" || len(name) > 253 || strings.ContainsAny(name, "/\x00 ") {
		return fmt.Errorf("%q is not a valid name of a %s: use 1 to 253 characters other than slashes and spaces", name, what)
	}
	if models.NodePrefix(name) == models.KSRPrefix {
		return fmt.Errorf("%q is not a valid name of a %s: it is reserved for KSR", name, what)
	}
	return nil
}

// permission grants read or write access to the keys from key up to and excluding end. end "": only
// key.
type permission struct {
	key, end string
	write    bool
}

func (p permission) kind() clientv3.PermissionType {
	if p.write {
		return clientv3.PermissionType(clientv3.PermReadWrite)
	}
	return clientv3.PermissionType(clientv3.PermRead)
}

func prefix(p string, write bool) permission {
	return permission{p, clientv3.GetPrefixRangeEnd(p), write}
}

func nodePermissions(name string, id uint32) []permission {
	return []permission{
		prefix(models.KSRPrefix, false),
		prefix(models.NodePrefix(name), true),
		{idKey(id), "", true},
	}
}

func clientPermissions(c Client) []permission {
	out := []permission{prefix(nodePrefix, false)}
	if slices.Contains(c.Nodes, AllNodes) {
		all := prefix(models.AgentPrefix, true)
		ksr := prefix(models.KSRPrefix, true)
		return append(out, permission{all.key, ksr.key, true}, permission{ksr.end, all.end, true})
	}
	for _, node := range c.Nodes {
		out = append(out, prefix(models.NodePrefix(node), true))
	}
	return out
}

func idKey(id uint32) string { return models.KSRPrefix + kubestate.VppNodeKey(id) }

func parseID(key string) (uint32, bool) {
	text, ok := strings.CutPrefix(key, idPrefix)
	id, err := strconv.ParseUint(text, 10, 32)
	return uint32(id), ok && err == nil
}
