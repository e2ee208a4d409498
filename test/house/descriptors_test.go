package house

// subject lists the allowed imports of descriptor packages, which must not import each other.
var subject = []string{"api", "models", "kvscheduler", "netalloc", "vswitch", "vswitch/descriptor"}

var descriptorRooms = map[string][]string{
	"vswitch/descriptors/interfaces":    subject,
	"vswitch/descriptors/l2":            subject,
	"vswitch/descriptors/l3":            subject,
	"vswitch/descriptors/srv6":          subject,
	"vswitch/descriptors/nat":           subject,
	"vswitch/descriptors/acl":           append([]string{"filter"}, subject...),
	"vswitch/descriptors/punt":          subject,
	"vswitch/descriptors/unimplemented": subject,
}
