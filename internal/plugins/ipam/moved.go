package ipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
)

const planKey = "/local/ipam-options"

// ErrAddressesMoved is wrapped if the configuration would change the addresses of wired pods.
var ErrAddressesMoved = errors.New("running pods would get other addresses")

// checkPlan rejects options that would change the addresses of wired pods. It stores accepted
// options for the next comparison.
func (i *IPAM) checkPlan(ctx context.Context) error {
	subnets := i.config.Subnets()
	now := subnets.PodOptions()
	kv, found, err := i.saved.db.Get(ctx, planKey)
	if err != nil {
		return fmt.Errorf("read the previous options of IPAM: %w", err)
	}
	var before []string
	if found {
		if err := json.Unmarshal(kv.Value, &before); err != nil {
			controller.Logger(ctx, i.log).Error("Replacing an invalid record of the options of IPAM", "error", err)
		}
	}
	if slices.Equal(now, before) {
		return nil
	}
	changes := contivconf.ChangedOptions(now, before)
	if pods := i.pods.LocalPods(); len(changes) > 0 && len(pods) > 0 && !i.config.ExternalIPAM() {
		return fmt.Errorf("%w: %s, and %d pods of this node have addresses based on it. Restore the configuration; or, to migrate, "+
			"drain the node (kubectl drain %s --ignore-daemonsets), delete the remaining pods on it, and then start the agent. "+
			"All nodes must have the same options", ErrAddressesMoved, strings.Join(changes, "; "), len(pods), i.config.NodeName())
	}
	data, err := json.Marshal(now)
	if err == nil {
		err = i.saved.db.Put(ctx, planKey, data)
	}
	if err != nil {
		// Not fatal: at worst, a later change is not rejected.
		controller.Logger(ctx, i.log).Error("Storing the options of IPAM failed", "error", err)
	}
	return nil
}
