package session

import (
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
)

// Link is a checked connection.
type Link struct {
	*vppapi.Conn
	pid     uint32
	Version string
	modules map[*Module]error // why each module cannot be used; nil if it can
}

// Lacking returns why a module cannot be used; nil if it can. The session must have been started
// with the module.
func (l *Link) Lacking(m *Module) error {
	why, checked := l.modules[m]
	if !checked {
		panic("the session does not know the module " + m.name)
	}
	return why
}

// Lacks returns the reasons why modules cannot be used, by module name.
func (l *Link) Lacks() map[string]error {
	reasons := map[string]error{}
	for m, why := range l.modules {
		if why != nil {
			reasons[m.name] = why
		}
	}
	return reasons
}
