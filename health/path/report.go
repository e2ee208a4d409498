package path

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/contiv/contiv/rest"
)

// URL of the handler.
const URL = "/contiv/v1/path"

// Question asks about packets between two addresses.
type Question struct {
	From, To netip.Addr
	// Protocol is "" (ICMP), "tcp", "udp" or "sctp"; Port is the port of To, 0 without a protocol.
	Protocol string
	Port     uint16
	// OfService: the path is that of a service to one of its endpoints, To.
	OfService bool
	// Seen are the addresses by which policies see From, since nodes on the way translate it; none: From itself.
	Seen []netip.Addr
}

// Sources returns the addresses by which policies see where packets come from.
func (q Question) Sources() []netip.Addr {
	if len(q.Seen) > 0 {
		return q.Seen
	}
	return []netip.Addr{q.From}
}

// PodInterface is the interface of a pod that has the address.
type PodInterface struct {
	Address   netip.Addr `json:"address"`
	Pod       string     `json:"pod"` // with its namespace
	Interface string     `json:"interface"`
}

// Sighting is the address by which the policies of an endpoint see a client that comes in at a node.
type Sighting struct {
	Endpoint netip.AddrPort `json:"endpoint"`
	Source   netip.Addr     `json:"source"`
}

// Finding is a problem on the node or in one of its pods.
type Finding struct {
	Where string `json:"where"`
	Text  string `json:"text"`
}

// Probe is the result of sending packets to a place on the way.
type Probe struct {
	// From is a pod or the node; To is an address and its meaning.
	From string `json:"from"`
	To   string `json:"to"`
	// Kind is "icmp"; "udp" if only a datagram to a port on which nobody listens was answered; or "tcp".
	Kind     string `json:"kind"`
	Answered bool   `json:"answered"`
	// Error is the reason why there was no answer, if known.
	Error            string  `json:"error,omitempty"`
	RoundTripSeconds float64 `json:"roundTripSeconds,omitempty"`
	// Size of the largest packet, up to Wanted, that was answered; 0: not measured.
	Size   int `json:"size,omitempty"`
	Wanted int `json:"wanted,omitempty"`
	// End is set for the probe to the address in question.
	End bool `json:"end,omitempty"`
	// Overlay is set for the probe of the other node through the tunnel, which packets of pods take.
	Overlay bool `json:"overlay,omitempty"`
}

// Link is a connection of a node to the others.
type Link struct {
	Address string `json:"address"`
	Device  string `json:"device"`
	MAC     string `json:"mac"`
}

// Neighbour is the MAC address that a node has for another.
type Neighbour struct {
	Address   string `json:"address"`
	Device    string `json:"device"`
	MAC       string `json:"mac"`
	Permanent bool   `json:"permanent"`
}

// Report is the JSON of the answer.
type Report struct {
	Node string `json:"node"`
	// From and To describe the addresses, as far as this node knows them.
	From string `json:"from"`
	To   string `json:"to"`
	// Source and Destination: the address is on this node.
	Source      bool `json:"source"`
	Destination bool `json:"destination"`

	// Stale is why the node may know an old state of the cluster only: changes in etcd are not followed.
	Stale string `json:"stale,omitempty"`

	Findings []Finding `json:"findings"`
	// Doubts are about what may be in the way, and cannot be judged.
	Doubts []Finding `json:"doubts,omitempty"`
	// Unheard says that nobody listens on the port. It is wrong if a connection was opened nevertheless.
	Unheard *Finding `json:"unheard,omitempty"`
	// Suspects are what stops the packets if no connection is opened, and the ends do not.
	Suspects []Finding `json:"suspects,omitempty"`
	// Way lists what the data plane would do, one line each.
	Way    []string `json:"way"`
	Probes []Probe  `json:"probes"`
	// NoEcho: packets of the protocol are accepted here, but the ICMP packets of probes are refused.
	NoEcho bool `json:"noEcho,omitempty"`

	// Entrances are the addresses with ports at which clients from outside of the cluster reach the service in question, and
	// Endpoints where this node sends the connection in question instead. Paths to these are other questions.
	Entrances []netip.AddrPort `json:"entrances,omitempty"`
	Endpoints []netip.AddrPort `json:"endpoints,omitempty"`
	// Interfaces has those of Endpoints that are at another interface of their pod than eth0.
	Interfaces []PodInterface `json:"interfaces,omitempty"`
	// Sightings are of those endpoints that do not see the client's address.
	Sightings []Sighting `json:"sightings,omitempty"`

	// Astray: To, of a pod, is an address of this node's own devices: who answers there is not the pod.
	Astray bool `json:"astray,omitempty"`

	Links      []Link      `json:"links"`
	Neighbours []Neighbour `json:"neighbours"`

	// translated: packets are not what they were when this node routes them.
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

func (r *Report) doubtAll(where string, texts []string) {
	for _, text := range texts {
		if f := (Finding{where, text}); !slices.Contains(r.Doubts, f) {
			r.Doubts = append(r.Doubts, f)
		}
	}
}

// timeout bounds an answer.
const timeout = 8 * time.Second

// Handler serves GET /contiv/v1/path.
func (e *Explainer) Handler() http.Handler {
	return rest.Get(func(w http.ResponseWriter, r *http.Request) {
		q, err := question(r)
		if err != nil {
			rest.Error(w, http.StatusBadRequest, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
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
	q.OfService = values.Get("ofService") == "true"
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
