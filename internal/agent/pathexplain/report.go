package pathexplain

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/netlink/nft/foreign"
)

// URL of the handler.
const URL = "/contiv/v1/path"

// SourceOnly is the parameter, with the value "true", of a question that only asks for the address
// from which processes of the node send. From is ignored.
const SourceOnly = "sourceOnly"

// Question asks about packets between two addresses.
type Question struct {
	From, To netip.Addr
	// Protocol is "" (ICMP), "tcp", "udp" or "sctp"; Port is the port of To, 0 without a protocol.
	Protocol string
	Port     uint16
	// OfService: the path is from a service to one of its endpoints, To.
	OfService bool
	// FromNode names the node whose own processes send from From, which may be any of its addresses; "": other senders.
	FromNode string
	// Seen lists the addresses by which policies see From, translated on the way; empty: From
	// itself.
	Seen []netip.Addr
}

// Sources returns the source addresses that policies see.
func (q Question) Sources() []netip.Addr {
	if len(q.Seen) > 0 {
		return q.Seen
	}
	return []netip.Addr{q.From}
}

// PodInterface is the pod interface that has the address.
type PodInterface struct {
	Address   netip.Addr `json:"address"`
	Pod       string     `json:"pod"` // namespace/name
	Interface string     `json:"interface"`
}

// Sighting is the source address that an endpoint's policies see for a client entering at a node.
type Sighting struct {
	Endpoint netip.AddrPort `json:"endpoint"`
	Source   netip.Addr     `json:"source"`
}

// Finding is a problem on the node or in one of its pods.
type Finding struct {
	Where string `json:"where"`
	Text  string `json:"text"`
}

// Probe is the result of sending packets to a point on the path.
type Probe struct {
	// From is a pod or the node; To is an address with its meaning.
	From string `json:"from"`
	To   string `json:"to"`
	// Kind is "icmp", "tcp", or "udp" if only a datagram to an unused port was answered.
	Kind     string `json:"kind"`
	Answered bool   `json:"answered"`
	// Error is the reason for the missing answer, if known.
	Error            string  `json:"error,omitempty"`
	RoundTripSeconds float64 `json:"roundTripSeconds,omitempty"`
	// Size of the largest answered packet, at most Wanted; 0 if not measured.
	Size   int `json:"size,omitempty"`
	Wanted int `json:"wanted,omitempty"`
	// End is set for the probe to the address in question.
	End bool `json:"end,omitempty"`
	// Overlay is set for the probe of the other node through the tunnel used by pods' packets.
	Overlay bool `json:"overlay,omitempty"`
}

// Link is a device of a node towards the others.
type Link struct {
	Address string `json:"address"`
	Device  string `json:"device"`
	MAC     string `json:"mac"`
}

// Neighbour is the MAC address that a node uses for another.
type Neighbour struct {
	Address   string `json:"address"`
	Device    string `json:"device"`
	MAC       string `json:"mac"`
	Permanent bool   `json:"permanent"`
}

// Report is the response in JSON.
type Report struct {
	Node string `json:"node"`
	// From and To describe the addresses as known to this node.
	From string `json:"from"`
	To   string `json:"to"`
	// Sends is the address from which processes of this node send to To, by its routes. It is the answer to a question of SourceOnly.
	Sends netip.Addr `json:"sends,omitzero"`
	// Source and Destination: the address is on this node.
	Source      bool `json:"source"`
	Destination bool `json:"destination"`

	// Stale is why the node's view of the cluster may be outdated.
	Stale string `json:"stale,omitempty"`

	Findings []Finding `json:"findings"`
	// Unjudged lists filters and programs whose effect is unknown.
	Unjudged []Finding `json:"doubts,omitempty"`
	// Unheard reports that no process listens on the port. It is wrong if a connection succeeded
	// nevertheless.
	Unheard *Finding `json:"unheard,omitempty"`
	// Suspects lists likely causes if no connection succeeds and the ends are not the cause.
	Suspects []Finding `json:"suspects,omitempty"`
	// Way lists the actions of the data plane, one line each.
	Way    []string `json:"way"`
	Probes []Probe  `json:"probes"`
	// NoEcho: packets of the protocol are accepted, but the ICMP packets of probes are refused.
	NoEcho bool `json:"noEcho,omitempty"`

	// Entrances lists the addresses and ports at which clients outside the cluster reach the
	// service, Endpoints the targets to which this node translates the connection. Paths to them
	// are separate questions.
	Entrances []netip.AddrPort `json:"entrances,omitempty"`
	Endpoints []netip.AddrPort `json:"endpoints,omitempty"`
	// Interfaces lists the Endpoints on a pod interface other than eth0.
	Interfaces []PodInterface `json:"interfaces,omitempty"`
	// Sightings lists the endpoints that do not see the client's address.
	Sightings []Sighting `json:"sightings,omitempty"`

	// LocalConflict: the pod address To is also on a device of this node, which answers instead of
	// the pod.
	LocalConflict bool `json:"astray,omitempty"`

	Links      []Link      `json:"links"`
	Neighbours []Neighbour `json:"neighbours"`

	// translated: the packets are translated before this node routes them.
	translated bool
}

func (r *Report) find(where, text string) {
	if f := (Finding{where, text}); !slices.Contains(r.Findings, f) {
		r.Findings = append(r.Findings, f)
	}
}

func (r *Report) findAll(where string, texts []string) {
	for _, text := range texts {
		r.find(where, text)
	}
}

func (r *Report) addUnjudged(where string, texts []string) {
	for _, text := range texts {
		if f := (Finding{where, text}); !slices.Contains(r.Unjudged, f) {
			r.Unjudged = append(r.Unjudged, f)
		}
	}
}

// timeout bounds the response.
const timeout = 8 * time.Second

func (e *Explainer) Handler() http.Handler {
	return rest.Get(func(w http.ResponseWriter, r *http.Request) {
		q, err := question(r)
		if err != nil {
			rest.Error(w, http.StatusBadRequest, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		if r.URL.Query().Get(SourceOnly) == "true" {
			_, source, _ := routeOf(foreign.Packet{Dst: q.To, Protocol: q.protocol(), DstPort: q.Port})
			rest.JSON(w, &Report{Node: e.o.Node, Sends: source})
			return
		}
		report, err := e.Explain(ctx, q)
		if err != nil {
			rest.Error(w, http.StatusServiceUnavailable, err)
			return
		}
		rest.JSON(w, report)
	})
}

func question(r *http.Request) (q Question, err error) {
	values := r.URL.Query()
	for name, into := range map[string]*netip.Addr{"from": &q.From, "to": &q.To} {
		if *into, err = netip.ParseAddr(values.Get(name)); err != nil {
			return q, errors.New(name + " must be an IP address: ?from=10.1.1.2&to=10.1.2.2")
		}
	}
	if q.From.Is4() != q.To.Is4() {
		return q, errors.New("from and to must be of the same IP version")
	}
	for _, text := range values["seen"] {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Is4() != q.To.Is4() {
			return q, errors.New("seen must be an IP address of the same version as to")
		}
		q.Seen = append(q.Seen, addr)
	}
	q.OfService, q.FromNode = values.Get("ofService") == "true", values.Get("fromNode")
	if q.Protocol = values.Get("protocol"); q.Protocol == "" {
		return q, nil
	}
	port, err := strconv.ParseUint(values.Get("port"), 10, 16)
	if !slices.Contains([]string{"tcp", "udp", "sctp"}, q.Protocol) || err != nil || port == 0 {
		return q, errors.New("protocol is tcp, udp or sctp, and port 1 to 65535")
	}
	q.Port = uint16(port)
	return q, nil
}
