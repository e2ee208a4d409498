package linux

import (
	"maps"
	"slices"

	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/types/known/emptypb"
)

// pushHostNames notifies the scheduler of foreign devices that changed since the last call. A
// concurrent Retrieve is harmless, because notifications are applied in the order of the changes.
func (w *watcher) pushHostNames() error {
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
	if err := w.p.scheduler.PushSBNotification(changes...); err != nil {
		return err
	}
	w.pushed = now
	return nil
}
