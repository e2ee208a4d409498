package cniwire

import "encoding/json"

// The methods of the service.
const (
	Add            = "Add"
	Delete         = "Delete"
	Check          = "Check"
	Status         = "Status"
	CollectGarbage = "CollectGarbage"
)

// Call asks the agent for something.
type Call struct {
	Method string `json:"method"`
	// TimeoutNs is how many nanoseconds the agent has; 0: as long as it takes.
	TimeoutNs int64           `json:"timeout_ns,omitempty"`
	Request   json.RawMessage `json:"request"`
}

// Answer is what came of a Call: a Reply, or a Code other than OK with a Message.
type Answer struct {
	Code    Code            `json:"code,omitempty"`
	Message string          `json:"message,omitempty"`
	Reply   json.RawMessage `json:"reply,omitempty"`
}

// Code is a status code of gRPC.
type Code uint32

// The codes that contiv-cni distinguishes.
const (
	OK                Code = 0
	Canceled          Code = 1
	InvalidArgument   Code = 3
	DeadlineExceeded  Code = 4
	ResourceExhausted Code = 8
	Unavailable       Code = 14
)

// Error is a call that the agent did not serve.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

// CNIRequest is about one attachment. See cni.proto for all messages.
type CNIRequest struct {
	Version          string `json:"version,omitempty"`
	ContainerID      string `json:"container_id,omitempty"`
	NetworkNamespace string `json:"network_namespace,omitempty"`
	InterfaceName    string `json:"interface_name,omitempty"`
	ExtraNwConfig    string `json:"extra_nw_config,omitempty"`
	ExtraArguments   string `json:"extra_arguments,omitempty"`
	IPAMType         string `json:"ipam_type,omitempty"`
	IPAMData         string `json:"ipam_data,omitempty"`
}

// CNIReply describes what was configured.
type CNIReply struct {
	Result               uint32      `json:"result,omitempty"`
	Error                string      `json:"error,omitempty"`
	Interfaces           []Interface `json:"interfaces,omitempty"`
	Routes               []Route     `json:"routes,omitempty"`
	DNS                  []DNS       `json:"dns,omitempty"`
	EventSeqNum          uint64      `json:"event_seq_num,omitempty,string"`
	AgentDurationNs      uint64      `json:"agent_duration_ns,omitempty,string"`
	SouthboundDurationNs uint64      `json:"southbound_duration_ns,omitempty,string"`
}

// Interface of the pod, or of the node if it has no Sandbox.
type Interface struct {
	Name        string    `json:"name,omitempty"`
	MAC         string    `json:"mac,omitempty"`
	Sandbox     string    `json:"sandbox,omitempty"`
	IPAddresses []Address `json:"ip_addresses,omitempty"`
	MTU         uint32    `json:"mtu,omitempty"`
}

// Address with its prefix length, and a gateway.
type Address struct {
	// Version is "IPV4", also if it is empty, or "IPV6".
	Version string `json:"version,omitempty"`
	Address string `json:"address,omitempty"`
	Gateway string `json:"gateway,omitempty"`
}

// Route in the pod.
type Route struct {
	Dst string `json:"dst,omitempty"`
	Gw  string `json:"gw,omitempty"`
}

// DNS of the pod.
type DNS struct {
	Domain      string   `json:"domain,omitempty"`
	Nameservers []string `json:"nameservers,omitempty"`
	Search      []string `json:"search,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// StatusRequest has nothing to say.
type StatusRequest struct{}

// StatusReply reports whether pods can be wired.
type StatusReply struct {
	Ready    bool     `json:"ready,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	PodCIDRs []string `json:"pod_CIDRs,omitempty"`
}

// Attachment of a container to a network.
type Attachment struct {
	ContainerID   string `json:"container_id,omitempty"`
	InterfaceName string `json:"interface_name,omitempty"`
}

// GarbageRequest names the attachments that are to stay.
type GarbageRequest struct {
	Network          string       `json:"network,omitempty"`
	ValidAttachments []Attachment `json:"valid_attachments,omitempty"`
}

// GarbageReply names those that were removed.
type GarbageReply struct {
	Result  uint32       `json:"result,omitempty"`
	Error   string       `json:"error,omitempty"`
	Removed []Attachment `json:"removed,omitempty"`
}
