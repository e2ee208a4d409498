package path

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/contiv/contiv/rest"
)

// URL that the handler is meant for.
const URL = "/contiv/v1/path"

// Question is what is asked for.
type Question struct {
	From, To netip.Addr
	// Protocol is "" (ICMP), "tcp" or "udp"; Port is that of To, 0 without protocol.
	Protocol string
	Port     uint16
}

// Finding is something that is wrong, on the node or in one of its pods.
type Finding struct {
	Where string `json:"where"`
	Text  string `json:"text"`
}

// Probe is a packet that was sent, and what came back.
type Probe struct {
	// From a pod or the node, To with what is there.
	From string `json:"from"`
	To   string `json:"to"`
	// Kind is "icmp" or "tcp".
	Kind     string `json:"kind"`
	Answered bool   `json:"answered"`
	// Error is why not, if that is known.
	Error            string  `json:"error,omitempty"`
	RoundTripSeconds float64 `json:"roundTripSeconds,omitempty"`
	// Size of the largest packet that was answered, of Wanted; 0: not measured.
	Size   int `json:"size,omitempty"`
	Wanted int `json:"wanted,omitempty"`
	// End is set for the probe to the address that was asked for.
	End bool `json:"end,omitempty"`
}

// Link is how a node is connected to the others.
type Link struct {
	Address string `json:"address"`
	Device  string `json:"device"`
	MAC     string `json:"mac"`
}

// Neighbour is what a node believes of the MAC address of another.
type Neighbour struct {
	Address   string `json:"address"`
	Device    string `json:"device"`
	MAC       string `json:"mac"`
	Permanent bool   `json:"permanent"`
}

// Report is the JSON of the answer.
type Report struct {
	Node string `json:"node"`
	// From and To say what the addresses are, as far as this node knows.
	From string `json:"from"`
	To   string `json:"to"`
	// Source and Destination: the address is on this node.
	Source      bool `json:"source"`
	Destination bool `json:"destination"`

	Findings []Finding `json:"findings"`
	// Way is what the data plane would do, one line each.
	Way    []string `json:"way"`
	Probes []Probe  `json:"probes"`
	// NoEcho: packets of the protocol are not refused here, but the ICMP of probes is.
	NoEcho bool `json:"noEcho,omitempty"`

	Links      []Link      `json:"links"`
	Neighbours []Neighbour `json:"neighbours"`
}

func (r *Report) find(where, text string) {
	r.Findings = append(r.Findings, Finding{where, text})
}

// timeout bounds an answer.
const timeout = 8 * time.Second

// Handler serves GET /contiv/v1/path.
func (e *Explainer) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			rest.Error(w, http.StatusMethodNotAllowed, errors.New("use GET"))
			return
		}
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
	if q.Protocol = values.Get("protocol"); q.Protocol == "" {
		return q, nil
	}
	port, err := strconv.ParseUint(values.Get("port"), 10, 16)
	if q.Protocol != "tcp" && q.Protocol != "udp" || err != nil || port == 0 {
		return q, errors.New("protocol is tcp or udp, and port 1 to 65535")
	}
	q.Port = uint16(port)
	return q, nil
}
