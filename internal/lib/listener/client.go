package listener

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

// Role is the permission of a client. Each role includes the smaller ones.
type Role int

const (
	// Nothing permits only public requests.
	Nothing Role = iota
	// Read permits reading everything except secrets.
	Read
	// Configure permits everything.
	Configure
)

// roleNames are the values of flags. Certificates have the organization RolePrefix + name.
var roleNames = map[string]Role{"read": Read, "configure": Configure}

// RolePrefix is the prefix of certificate organizations (O) that grant a role.
const RolePrefix = "contiv:"

// Everybody stands for all names in Options.Roles.
const Everybody = "*"

// Client is the authenticated author of a connection.
type Client struct {
	// Name for people: from the certificate, else the process, else the address.
	Name string
	Role Role
}

// Client returns the client of a connection from Listen or ListenTrusted, after its TLS handshake.
// Access to a unix socket implies the program's own user.
func (o Options) Client(conn net.Conn) Client {
	c := Client{Name: conn.RemoteAddr().String()}
	switch conn := conn.(type) {
	case *net.UnixConn:
		c = Client{processOf(conn), Configure}
	case *tls.Conn:
		if state := conn.ConnectionState(); len(state.VerifiedChains) > 0 {
			subject := state.VerifiedChains[0][0].Subject
			c = Client{"certificate of " + subject.CommonName, o.role(subject.CommonName, subject.Organization)}
		}
	}
	if o.AllowUnauthenticated {
		c.Role = Configure
	}
	return c
}

// role returns the greatest role granted by the certificate and the options.
func (o Options) role(name string, organizations []string) Role {
	role := max(roleNames[o.Roles[name]], roleNames[o.Roles[Everybody]])
	for given, r := range roleNames {
		if slices.Contains(organizations, RolePrefix+given) {
			role = max(role, r)
		}
	}
	return role
}

func (o Options) checkRoles() error {
	for name, role := range o.Roles {
		if roleNames[role] == Nothing {
			return fmt.Errorf("--tls-client-role %s=%s: the role must be read or configure", name, role)
		}
	}
	return nil
}

func processOf(conn *net.UnixConn) string {
	raw, err := conn.SyscallConn()
	if err != nil {
		return "a client of the socket"
	}
	var peer *unix.Ucred
	if raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }) != nil || err != nil {
		return "a client of the socket"
	}
	return fmt.Sprintf("user %d, process %d", peer.Uid, peer.Pid)
}
