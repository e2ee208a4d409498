package nodesync

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/contiv/contiv/models"
)

// Holder identifies the agent with a node's name. It is the value of ClaimKey, as JSON.
type Holder struct {
	// HostName and Addresses help to find the machine.
	HostName  string   `json:"hostName"`
	Addresses []string `json:"addresses"`
	// BootID of the running kernel, and the inode of the network namespace. An agent with the same
	// ones replaces one that has ended.
	BootID string `json:"bootID"`
	NetNS  uint64 `json:"netns"`
	// PID and Started distinguish the agents of a machine.
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
}

// ClaimKey is the key in etcd of the Holder of a node's name.
func ClaimKey(nodeName string) string { return models.NodePrefix(nodeName) + models.AgentKey }

func thisAgent() (Holder, error) {
	h := Holder{PID: os.Getpid(), Started: time.Now().UTC()}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return h, fmt.Errorf("identify this machine: %w", err)
	}
	var netns syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/net", &netns); err != nil {
		return h, fmt.Errorf("identify this network namespace: %w", err)
	}
	h.BootID, h.NetNS = strings.TrimSpace(string(boot)), netns.Ino
	h.HostName, _ = os.Hostname()
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if p, ok := a.(*net.IPNet); ok && p.IP.IsGlobalUnicast() {
			h.Addresses = append(h.Addresses, p.String())
		}
	}
	return h, nil
}

// samePlace reports whether both run in the same network namespace of the same machine, since the
// same boot.
func (h Holder) samePlace(other Holder) bool {
	return h.BootID == other.BootID && h.NetNS == other.NetNS
}

func (h Holder) String() string {
	const shown = 3
	addresses := h.Addresses
	if len(addresses) > shown {
		addresses = append(addresses[:shown:shown], "…")
	}
	return fmt.Sprintf("host %s with %s (process %d since %s)", h.HostName, strings.Join(addresses, ", "), h.PID, h.Started.Format(time.RFC3339))
}

func (h Holder) encode() []byte {
	data, err := json.Marshal(h)
	if err != nil {
		panic(err) // a struct of plain fields
	}
	return data
}

// A value that cannot be decoded belongs to another agent.
func decodeHolder(data []byte) (h Holder, err error) {
	err = json.Unmarshal(data, &h)
	return h, err
}
