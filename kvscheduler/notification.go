package kvscheduler

import (
	"fmt"
	"log/slog"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// Notification is a change of an OBTAINED value in the southbound. A nil Value means that the value
// was removed.
type Notification struct {
	Key      string
	Value    proto.Message
	Metadata any
}

// check validates the key, and replaces a nil pointer by a nil Value.
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

// fetchNotifications fetches the notifications of the job.
func (j *job) fetchNotifications(log *slog.Logger) {
	for _, n := range j.fetch() {
		if err := n.check(); err != nil {
			log.Error("notification ignored: invalid key", "error", err)
			continue
		}
		j.notifications = append(j.notifications, n)
	}
}
