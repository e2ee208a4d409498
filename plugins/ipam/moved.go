package ipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/plugins/contivconf"
)

const planKey = "/local/ipam-options"

// ErrAddressesMoved is wrapped if the configuration would change the addresses of wired pods.
var ErrAddressesMoved = errors.New("pods would get other addresses while they run")

// checkPlan rejects options that would change the addresses of wired pods. It stores accepted
// options for the next comparison.
func (i *IPAM) checkPlan(ctx context.Context) error {
	subnets := i.config.Subnets()
	now := subnets.PodOptions()
	kv, found, err := i.saved.db.Get(ctx, planKey)
	if err != nil {
		return fmt.Errorf("read the options of IPAM that were in force: %w", err)
	}
	var before []string
	if found {
		if err := json.Unmarshal(kv.Value, &before); err != nil {
			controller.Logger(ctx, i.log).Error("Record of the options of IPAM is unusable and is replaced", "error", err)
		}
	}
	if slices.Equal(now, before) {
		return nil
	}
	changes := contivconf.ChangedOptions(now, before)
	if pods := i.pods.LocalPods(); len(changes) > 0 && len(pods) > 0 && !i.config.ExternalIPAM() {
		return fmt.Errorf("%w: %s, and %d pods of this node have addresses that follow from it. Restore the configuration; or, to migrate, "+
			"drain the node (kubectl drain %s --ignore-daemonsets), delete the pods that are left on it, and start the agent then. "+
			"All nodes must get the same options", ErrAddressesMoved, strings.Join(changes, "; "), len(pods), i.config.NodeName())
	}
	data, err := json.Marshal(now)
	if err == nil {
		err = i.saved.db.Put(ctx, planKey, data)
	}
	if err != nil {
		// Not fatal: at worst, a later change is not rejected.
		controller.Logger(ctx, i.log).Error("Options of IPAM cannot be remembered", "error", err)
	}
	return nil
}
