// Package published defines the states that agents and KSR publish in etcd for each other:
//
//	agent ── <node>/check/health ──────> KSR: Node condition ContivReady, Events
//	KSR ──── contiv-ksr/status/ksr ────> agents: /readiness?verbose, metrics ──> contivctl status
//
// A process cannot report its own end. So agents' keys have a lease, and KSR writes its state at
// least every Heartbeat.
package published

import (
	"regexp"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
)

// Heartbeat is how often KSR writes its status if nothing changes.
const Heartbeat = 20 * time.Second

// Verdicts on nodes.
const (
	Healthy  = "healthy"
	Degraded = "degraded" // the node works, with problems
	Broken   = "broken"   // the node is not reliable
)

// Problem is a problem found by a check.
type Problem struct {
	Check string `json:"check"`
	Text  string `json:"text"`
	// Since is when the problem was first seen without interruption.
	Since time.Time `json:"since,omitzero"`
	// Cluster: the problem concerns the whole cluster and does not change the verdict on the
	// reporting node.
	Cluster bool `json:"cluster,omitempty"`
}

// Identity returns the part of a problem's text that stays the same while the problem lasts: the
// text without counts, durations and port numbers. Digits of names and addresses stay, because they
// distinguish problems.
func Identity(text string) string {
	return word.ReplaceAllStringFunc(text, func(w string) string {
		if number.MatchString(w) {
			return ""
		}
		return port.ReplaceAllString(w, "$1")
	})
}

var (
	word   = regexp.MustCompile(`[^\s,;"'()=]+`)
	number = regexp.MustCompile(`^#?\d+([./:]?\d+)?(%|[a-zµA-Z]{1,3}(\d+(\.\d+)?[a-zµ]{1,2})*)?[.:]?$`)
	port   = regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+|\]):\d+`)
)

func NodeKey(node string) string { return models.NodePrefix(node) + models.CheckPrefix + "health" }

// Node is an agent's verdict on its node.
type Node struct {
	Verdict string `json:"verdict"`
	// Error is the reason why a node is broken.
	Error    string    `json:"error,omitempty"`
	Problems []Problem `json:"problems,omitempty"`
	Version  string    `json:"version"`
	// Time of writing.
	Time time.Time `json:"time"`
}

const KSRKey = models.KSRPrefix + kubestate.KSRStatusKey

// KSR is the status of the active KSR instance.
type KSR struct {
	Instance string `json:"instance"`
	Version  string `json:"version"`
	// Complete: the source has reported all existing objects.
	Complete bool `json:"complete"`
	// Problems lists at most MaxProblems objects that the source could not read or decode, or that
	// cannot be reflected. More is the number of the others.
	Problems []string `json:"problems,omitempty"`
	More     int      `json:"more,omitempty"`
	// Time of writing.
	Time time.Time `json:"time"`
}

// MaxProblems bounds how many problems of KSR are published.
const MaxProblems = 10
