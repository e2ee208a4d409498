package nodesync

import (
	"context"
	"time"

	"github.com/contiv/contiv/internal/controller"
)

// The delay between attempts to publish this node's VppNode doubles from firstRetry to lastRetry.
const firstRetry, lastRetry = time.Second, time.Minute

// PublishAgain retries to write this node's VppNode after etcd was full or the name belonged to
// another agent. No change of the cluster's state would trigger a retry.
type PublishAgain struct{ controller.NonBlocking }

func (*PublishAgain) Name() string                                { return "Publish Again" }
func (*PublishAgain) Method() controller.EventMethod              { return controller.Update }
func (*PublishAgain) TransactionType() controller.TransactionType { return controller.BestEffort }
func (*PublishAgain) Direction() controller.Direction             { return controller.Forward }
func (*PublishAgain) String() string {
	return "Publish Again: other nodes do not have the addresses of this node"
}

func (n *NodeSync) tryAgain() {
	n.failures++
	select {
	case <-n.unpublished: // an earlier value that Run has not read
	default:
	}
	n.unpublished <- n.failures
}

// Run retries failed publications until ctx ends.
func (n *NodeSync) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case failures := <-n.unpublished:
			if !n.push(ctx, failures) {
				return
			}
		}
	}
}

// push sends a PublishAgain after a delay that grows with failures. It returns false if ctx ends.
func (n *NodeSync) push(ctx context.Context, failures int) bool {
	for ; ; failures++ {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(firstRetry<<min(failures-1, 10), lastRetry)):
		}
		// The event loop must not wait for an unresponsive database.
		asked, cancel := context.WithTimeout(ctx, publishTimeout)
		_, _, err := n.db.Get(asked, idKey(n.GetNodeID()))
		cancel()
		if err == nil {
			err = n.loop.PushEvent(ctx, &PublishAgain{})
		}
		if err == nil {
			return true
		}
		n.log.Debug("Publishing the addresses of this node failed, retrying", "error", err)
	}
}

func (n *NodeSync) publishAgain(ctx context.Context) error {
	n.mu.RLock()
	own := n.nodes[n.nodeName]
	n.mu.RUnlock()
	if own == nil || own.ID == 0 {
		return nil
	}
	return n.store(ctx, own.vppNode())
}
