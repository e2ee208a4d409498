package listener

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

// Role is what a client may do. A greater one includes the smaller ones.
type Role int

const (
	// Nothing but asking whether the program works.
	Nothing Role = iota
	// Read everything but secrets.
	Read
	// Configure, and everything else.
	Configure
)

// roleNames are those of flags; certificates name a role by the organization
// RolePrefix + name.
var roleNames = map[string]Role{"read": Read, "configure": Configure}

// RolePrefix starts organizations (O) of certificates that give a role.
const RolePrefix = "contiv:"

// Everybody stands for all names in Options.Roles.
const Everybody = "*"

// Client is who made a connection.
type Client struct {
	// Name for people: by its certificate, else by its process, else by its address.
	Name string
	Role Role
}

// Client says who is at the other end of a connection that Listen or ListenTrusted has
// accepted, and that has got past its TLS handshake. Who has access to a socket is the user
// that the program runs as.
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

// role is the greatest of those that the certificate and the options give.
func (o Options) role(name string, organizations []string) Role {
	role := max(roleNames[o.Roles[name]], roleNames[o.Roles[Everybody]])
	for given, r := range roleNames {
		if slices.Contains(organizations, RolePrefix+given) {
			role = max(role, r)
		}
	}
	return role
}

// checkRoles says which role does not exist.
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
		return "somebody at the socket"
	}
	var peer *unix.Ucred
	if raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }) != nil || err != nil {
		return "somebody at the socket"
	}
	return fmt.Sprintf("user %d, process %d", peer.Uid, peer.Pid)
}
