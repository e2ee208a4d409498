package kvscheduler

import "google.golang.org/protobuf/proto"

// Notification is a change of a value that the southbound reports. A nil Value
// says that the key is gone.
type Notification struct {
	Key      string
	Value    proto.Message
	Metadata any
}
