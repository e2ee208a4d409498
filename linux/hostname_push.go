package linux

import (
	"maps"
	"slices"

	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/types/known/emptypb"
)

// pushHostNames tells the scheduler how the devices of others differ from what it
// was told last. What it retrieves itself makes no difference: notifications are
// applied in the order in which things happened.
func (w *watcher) pushHostNames() error {
	if w.p.notify == nil {
		return nil
	}
	now, err := w.p.hostNameKeys()
	if err != nil {
		return err
	}
	var changes []kvscheduler.Notification
	for _, key := range slices.Sorted(maps.Keys(w.pushed)) {
		if !now[key] {
			changes = append(changes, kvscheduler.Notification{Key: key})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if !w.pushed[key] {
			changes = append(changes, kvscheduler.Notification{Key: key, Value: &emptypb.Empty{}, Metadata: kvscheduler.NoMetadata{}})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	if err := w.p.notify(changes...); err != nil {
		return err
	}
	w.pushed = now
	return nil
}
