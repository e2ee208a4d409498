package session

import (
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
)

// Link is a connection that is in order.
type Link struct {
	*vppapi.Conn
	pid     uint32
	Version string
	modules map[*Module]error // why each of them cannot be used; nil: it can
}

// Lacking returns why a module cannot be used; nil: it can. The module must be one of those
// that the session was started with.
func (l *Link) Lacking(m *Module) error {
	why, checked := l.modules[m]
	if !checked {
		panic("the session does not know the module " + m.name)
	}
	return why
}

// Lacks returns the reasons why modules cannot be used, by the names of those.
func (l *Link) Lacks() map[string]error {
	reasons := map[string]error{}
	for m, why := range l.modules {
		if why != nil {
			reasons[m.name] = why
		}
	}
	return reasons
}
