package nodesync

import (
	"context"
	"time"

	"github.com/contiv/contiv/controller"
)

// The time between attempts to publish this node's VppNode doubles from the first to the last.
const firstRetry, lastRetry = time.Second, time.Minute

// PublishAgain has this node's VppNode written that could not be written before: etcd had no room, or the
// name belonged to another agent. No change of the cluster's state would lead to that.
type PublishAgain struct{ controller.NonBlocking }

func (*PublishAgain) Name() string                                { return "Publish Again" }
func (*PublishAgain) Method() controller.EventMethod              { return controller.Update }
func (*PublishAgain) TransactionType() controller.TransactionType { return controller.BestEffort }
func (*PublishAgain) Direction() controller.Direction             { return controller.Forward }
func (*PublishAgain) String() string {
	return "Publish Again: other nodes do not know the addresses of this one"
}

// tryAgain tells Run of one more failure.
func (n *NodeSync) tryAgain() {
	n.failures++
	select {
	case <-n.unpublished: // the one before, if Run has not seen it
	default:
	}
	n.unpublished <- n.failures
}

// Run has what could not be published tried again, until ctx ends.
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

// push sends a PublishAgain after a while that depends on how many attempts have failed. It reports false
// when ctx has ended.
func (n *NodeSync) push(ctx context.Context, failures int) bool {
	for ; ; failures++ {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(firstRetry<<min(failures-1, 10), lastRetry)):
		}
		// The event loop does not wait for a database that does not answer.
		asked, cancel := context.WithTimeout(ctx, publishTimeout)
		_, _, err := n.db.Get(asked, idKey(n.GetNodeID()))
		cancel()
		if err == nil {
			err = n.loop.PushEvent(ctx, &PublishAgain{})
		}
		if err == nil {
			return true
		}
		n.log.Debug("Publishing the addresses of this node again has to wait", "error", err)
	}
}

// publishAgain writes this node's VppNode.
func (n *NodeSync) publishAgain(ctx context.Context) error {
	n.mu.RLock()
	own := n.nodes[n.nodeName]
	n.mu.RUnlock()
	if own == nil || own.ID == 0 {
		return nil
	}
	return n.store(ctx, own.vppNode())
}
