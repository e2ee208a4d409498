package kvscheduler

import (
	"fmt"
	"log/slog"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// Notification is a change of a value that the southbound reports. A nil Value
// says that the key is gone.
type Notification struct {
	Key      string
	Value    proto.Message
	Metadata any
}

// check also makes nil a Value that is a nil pointer.
func (n *Notification) check() error {
	if n.Key == "" {
		return ErrEmptyKey
	}
	if !utf8.ValidString(n.Key) {
		return fmt.Errorf("%w: %q", ErrInvalidKey, n.Key)
	}
	if isNil(n.Value) {
		n.Value = nil
	}
	return nil
}

// takeNotifications fetches the notifications of the job.
func (j *job) fetchNotifications(log *slog.Logger) {
	for _, n := range j.fetch() {
		if err := n.check(); err != nil {
			log.Error("notification ignored", "error", err)
			continue
		}
		j.notifications = append(j.notifications, n)
	}
}
