package cniwire

import "encoding/json"

// Methods of the service.
const (
	Add            = "Add"
	Delete         = "Delete"
	Check          = "Check"
	Status         = "Status"
	CollectGarbage = "CollectGarbage"
)

// Call is a request to the agent.
type Call struct {
	Method string `json:"method"`
	// TimeoutNs is the agent's time limit in nanoseconds; 0: none.
	TimeoutNs int64           `json:"timeout_ns,omitempty"`
	Request   json.RawMessage `json:"request"`
}

// Answer has a Reply, or a Code other than OK with a Message.
type Answer struct {
	Code    Code            `json:"code,omitempty"`
	Message string          `json:"message,omitempty"`
	Reply   json.RawMessage `json:"reply,omitempty"`
}

// Code is a gRPC status code.
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

// Error is the error of a call that the agent did not serve.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

// CNIRequest is the request of one attachment. See api/contiv/cni/cni.proto for all messages.
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

// CNIReply describes the configured attachment.
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
	// Version is "IPV4" (also if empty) or "IPV6".
	Version string `json:"version,omitempty"`
	Address string `json:"address,omitempty"`
	Gateway string `json:"gateway,omitempty"`
}

// Route in the pod.
type Route struct {
	Dst string `json:"dst,omitempty"`
	Gw  string `json:"gw,omitempty"`
}

// DNS configuration of the pod.
type DNS struct {
	Domain      string   `json:"domain,omitempty"`
	Nameservers []string `json:"nameservers,omitempty"`
	Search      []string `json:"search,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// StatusRequest is empty.
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

// GarbageRequest lists the attachments to keep.
type GarbageRequest struct {
	Network          string       `json:"network,omitempty"`
	ValidAttachments []Attachment `json:"valid_attachments,omitempty"`
}

// GarbageReply lists the removed attachments.
type GarbageReply struct {
	Result  uint32       `json:"result,omitempty"`
	Error   string       `json:"error,omitempty"`
	Removed []Attachment `json:"removed,omitempty"`
}
