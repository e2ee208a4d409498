// Package published is what agents and KSR say of themselves in etcd, so that each learns of the
// other without being asked:
//
//	agent ── <node>/check/health ──────> KSR: Node condition ContivReady, Events
//	KSR ──── contiv-ksr/status/ksr ────> agents: /readiness?verbose, metrics ──> contivctl status
//
// Who is gone does not say so. Agents hold a key that ends with them; KSR writes anew at least
// every Heartbeat.
package published

import (
	"strings"
	"time"

	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/models"
)

// Heartbeat is how often KSR writes its status if nothing changes.
const Heartbeat = 20 * time.Second

// Verdicts on nodes.
const (
	Healthy  = "healthy"
	Degraded = "degraded" // the node works, but something is not as it should be
	Broken   = "broken"   // it cannot be relied on
)

// Problem is something that is wrong.
type Problem struct {
	Check string `json:"check"`
	Text  string `json:"text"`
	// Since is when it was seen first without interruption.
	Since time.Time `json:"since,omitzero"`
	// Cluster problems are not of the node that tells of them: they do not change the verdict on
	// it.
	Cluster bool `json:"cluster,omitempty"`
}

// Identity is what remains of a problem's text as long as the problem does: numbers change.
func Identity(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// NodeKey is the key of a node's Node.
func NodeKey(node string) string { return models.NodePrefix(node) + models.CheckPrefix + "health" }

// Node is what an agent says of its node.
type Node struct {
	Verdict string `json:"verdict"`
	// Error is why a broken node cannot be relied on.
	Error    string    `json:"error,omitempty"`
	Problems []Problem `json:"problems,omitempty"`
	Version  string    `json:"version"`
	// Time of writing.
	Time time.Time `json:"time"`
}

// KSRKey is the key of KSR's status.
const KSRKey = models.KSRPrefix + dbresources.KSRStatusKey

// KSR is the status of the instance of KSR that writes to etcd.
type KSR struct {
	Instance string `json:"instance"`
	Version  string `json:"version"`
	// Complete: the source has reported all objects that there are.
	Complete bool `json:"complete"`
	// Problems are what the source could not read or make sense of, and objects that cannot be
	// reflected: the first MaxProblems of them. More is how many there are beyond.
	Problems []string `json:"problems,omitempty"`
	More     int      `json:"more,omitempty"`
	// Time of writing.
	Time time.Time `json:"time"`
}

// MaxProblems is how many problems of KSR are published.
const MaxProblems = 10
