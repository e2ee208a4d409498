package conditions

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
	corev1 "k8s.io/api/core/v1"
)

// Type of the condition.
const Type corev1.NodeConditionType = "ContivReady"

// Reasons of the condition.
const (
	Healthy  = "Healthy"
	Degraded = "Degraded"
	Broken   = "Broken"
	NoAgent  = "NoAgent"
)

// maxMessage is the maximal length of a message in bytes.
const maxMessage = 1000

type state struct {
	status   corev1.ConditionStatus
	reason   string
	message  string
	problems []string
}

// stateOf returns the state of a node: lives reports whether its agent runs, and written is its
// last state in etcd, or nil.
func stateOf(lives bool, written []byte) state {
	var n published.Node
	if written != nil {
		if err := json.Unmarshal(written, &n); err != nil {
			return unknown(fmt.Sprintf("the agent's report of the node cannot be read: %v", err))
		}
	}
	switch {
	case !lives && written == nil:
		return unknown("no agent has run on this node: check its pod of the DaemonSet contiv-vswitch")
	case !lives:
		return unknown("the agent has stopped or cannot reach etcd; pods keep their network, but new pods do not start. Its last report, at " +
			n.Time.UTC().Format(time.RFC3339) + ": " + n.Verdict)
	case written == nil:
		return unknown("the agent does not report the health of the node: it is older than KSR")
	}
	s := state{status: corev1.ConditionTrue, reason: Healthy, message: "Contiv works on this node"}
	for _, p := range n.Problems {
		if !p.Cluster {
			s.problems = append(s.problems, p.Text)
		}
	}
	switch {
	case n.Verdict == published.Broken:
		s.status, s.reason = corev1.ConditionFalse, Broken
		if n.Error != "" {
			s.problems = append([]string{n.Error}, s.problems...)
		}
	case len(s.problems) > 0:
		s.reason = Degraded
	}
	if len(s.problems) > 0 {
		s.message = shorten(strings.Join(s.problems, "; "))
	}
	return s
}

func unknown(message string) state {
	return state{corev1.ConditionUnknown, NoAgent, message, []string{message}}
}

func shorten(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}

func (s state) same(other state) bool {
	return s.kind() == other.kind() && published.Identity(s.message) == published.Identity(other.message)
}

func (s state) kind() string { return string(s.status) + " " + s.reason }

func (s state) news(before state) (texts []string) {
	known := published.Identity(before.message)
	for _, problem := range s.problems {
		if before.kind() != s.kind() || !strings.Contains(known, published.Identity(problem)) {
			texts = append(texts, shorten(problem))
		}
	}
	return texts
}
