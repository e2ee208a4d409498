package house

// subject lists the allowed imports of descriptor packages, which must not import each other.
var subject = []string{"api", "models", "kvscheduler", "internal/vswitch/netalloc", "internal/vswitch", "internal/vswitch/descriptors/descriptor"}

var descriptorRooms = map[string][]string{
	"internal/vswitch/descriptors/descriptor":    {"api", "models", "kvscheduler", "internal/vswitch"},
	"internal/vswitch/descriptors/interfaces":    subject,
	"internal/vswitch/descriptors/l2":            subject,
	"internal/vswitch/descriptors/l3":            subject,
	"internal/vswitch/descriptors/srv6":          subject,
	"internal/vswitch/descriptors/nat":           subject,
	"internal/vswitch/descriptors/acl":           append([]string{"internal/vswitch/policyrules"}, subject...),
	"internal/vswitch/descriptors/punt":          subject,
	"internal/vswitch/descriptors/unimplemented": subject,
}
