package punt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/punt"
)

var module = session.NewModule("", "punting to sockets",
	&punt.PuntSocketRegister{}, &punt.PuntSocketRegisterReply{}, &punt.PuntSocketDeregister{}, &punt.PuntSocketDeregisterReply{},
	&punt.PuntSocketDump{}, &punt.PuntSocketDetails{}, &punt.PuntReasonDump{}, &punt.PuntReasonDetails{},
)

// Punts hands packets for VPP itself, and packets that it drops, to sockets and redirections.
type Punts struct {
	subsystem.Base
	vpp   *session.Session
	ifs   *ownership.Registry
	rules Rules
}

// Rules are the STN rules, which also need punted packets.
type Rules interface {
	List(ctx context.Context, expected []*vpp_stn.Rule) ([]*vpp_stn.Rule, error)
}

func New(vpp *session.Session, ifs *ownership.Registry, rules Rules) *Punts {
	return &Punts{Base: subsystem.Base{Uses: []*session.Module{module, redirectModule}}, vpp: vpp, ifs: ifs, rules: rules}
}

// puntHeader is the version of the header before punted packets.
const puntHeader = 1

// maxSocketPath is the longest path of a socket.
const maxSocketPath = 107

func puntL4(ipv6 bool, protocol ip_types.IPProto, port uint16) punt.Punt {
	return punt.Punt{Type: punt.PUNT_API_TYPE_L4, Punt: punt.PuntUnionL4(punt.PuntL4{Af: convert.Family(ipv6), Protocol: protocol, Port: port})}
}

func puntException(reason uint32) punt.Punt {
	return punt.Punt{Type: punt.PUNT_API_TYPE_EXCEPTION, Punt: punt.PuntUnionException(punt.PuntException{ID: reason})}
}

// puntSockets returns the sockets that receive packets of a kind. All are ours, because nothing
// else registers sockets in this VPP.
func (v *Punts) puntSockets(ctx context.Context, kind punt.PuntType) ([]*punt.PuntSocketDetails, error) {
	return session.Dump[punt.PuntSocketDetails](ctx, v.vpp, module, &punt.PuntSocketDump{Type: kind})
}

// registerSocket hands packets to a socket, replacing an earlier one.
func (v *Punts) registerSocket(ctx context.Context, p punt.Punt, path string) error {
	if len(path) > maxSocketPath {
		return vswitch.Unsupported("a socket_path of %d bytes: sockets have at most %d", len(path), maxSocketPath)
	}
	err := v.vpp.Call(ctx, module, &punt.PuntSocketRegister{HeaderVersion: puntHeader, Punt: p, Pathname: path}, &punt.PuntSocketRegisterReply{})
	if vppapi.Refused(err, api.UNSPECIFIED) {
		return fmt.Errorf("%w: VPP's log says why; it needs a section punt with a socket in its start-up configuration", err)
	}
	return err
}

type puntsToHost struct{ *Punts }

func (v *Punts) PuntsToHost() vswitch.Values[*vpp_punt.ToHost] { return puntsToHost{v} }

func (v puntsToHost) Create(ctx context.Context, p *vpp_punt.ToHost) error {
	if err := v.set(ctx, p); err != nil {
		return fmt.Errorf("punting %v port %d: %w", p.GetL4Protocol(), p.GetPort(), err)
	}
	return nil
}

func (v puntsToHost) set(ctx context.Context, p *vpp_punt.ToHost) error {
	switch {
	case p.GetL4Protocol() != vpp_punt.L4Protocol_UDP:
		return vswitch.Unsupported("%v: VPP punts UDP only; hand over all packets for an address with an STN rule", p.GetL4Protocol())
	case p.GetSocketPath() == "":
		return vswitch.Unsupported("ports of the host's network stack: hand over all packets for an address with an STN rule, " +
			"or give the socket_path of a process")
	}
	var failed error
	for _, ipv6 := range familiesOf(p.GetL3Protocol()) {
		failed = errors.Join(failed, v.registerSocket(ctx, puntL4(ipv6, ip_types.IP_API_PROTO_UDP, uint16(p.GetPort())), p.GetSocketPath()))
	}
	return failed
}

func (v puntsToHost) Delete(ctx context.Context, p *vpp_punt.ToHost) error {
	sockets, err := v.puntSockets(ctx, punt.PUNT_API_TYPE_L4)
	for _, s := range sockets {
		l4 := s.Punt.Punt.GetL4()
		for _, ipv6 := range familiesOf(p.GetL3Protocol()) {
			if l4.Af == convert.Family(ipv6) && uint32(l4.Protocol) == uint32(p.GetL4Protocol()) && uint32(l4.Port) == p.GetPort() {
				err = errors.Join(err, v.vpp.Call(ctx, module, &punt.PuntSocketDeregister{Punt: s.Punt}, &punt.PuntSocketDeregisterReply{}))
			}
		}
	}
	if err != nil {
		return fmt.Errorf("no longer punting %v port %d: %w", p.GetL4Protocol(), p.GetPort(), err)
	}
	return nil
}

// List: a value for both IP versions is two for VPP, like two separate values.
func (v puntsToHost) List(ctx context.Context, expected []*vpp_punt.ToHost) ([]*vpp_punt.ToHost, error) {
	sockets, err := v.puntSockets(ctx, punt.PUNT_API_TYPE_L4)
	if err != nil {
		return nil, fmt.Errorf("listing punted ports: %w", err)
	}
	type port struct {
		l4   vpp_punt.L4Protocol
		port uint32
	}
	paths := map[port]map[bool]string{}
	for _, s := range sockets {
		l4 := s.Punt.Punt.GetL4()
		p := port{vpp_punt.L4Protocol(l4.Protocol), uint32(l4.Port)}
		if paths[p] == nil {
			paths[p] = map[bool]string{}
		}
		paths[p][l4.Af == ip_types.ADDRESS_IP6] = strings.TrimRight(s.Pathname, "\x00")
	}
	var list []*vpp_punt.ToHost
	add := func(p port, l3 vpp_punt.L3Protocol, path string) {
		list = append(list, &vpp_punt.ToHost{L3Protocol: l3, L4Protocol: p.l4, Port: p.port, SocketPath: path})
	}
	for _, want := range expected {
		p := port{want.GetL4Protocol(), want.GetPort()}
		if v4, v6 := paths[p][false], paths[p][true]; want.GetL3Protocol() == vpp_punt.L3Protocol_ALL && v4 != "" && v4 == v6 {
			add(p, vpp_punt.L3Protocol_ALL, v4)
			delete(paths, p)
		}
	}
	for p, byVersion := range paths {
		for ipv6, path := range byVersion {
			l3 := vpp_punt.L3Protocol_IPV4
			if ipv6 {
				l3 = vpp_punt.L3Protocol_IPV6
			}
			add(p, l3, path)
		}
	}
	return list, nil
}

type puntExceptions struct{ *Punts }

func (v *Punts) PuntExceptions() vswitch.Values[*vpp_punt.Exception] { return puntExceptions{v} }

// reasons returns VPP's numbers of reasons by name.
func (v puntExceptions) reasons(ctx context.Context) (map[string]uint32, error) {
	all, err := session.Dump[punt.PuntReasonDetails](ctx, v.vpp, module, &punt.PuntReasonDump{})
	ids := map[string]uint32{}
	for _, d := range all {
		ids[d.Reason.Name] = d.Reason.ID
	}
	return ids, err
}

func (v puntExceptions) Create(ctx context.Context, e *vpp_punt.Exception) error {
	ids, err := v.reasons(ctx)
	if err == nil {
		id, ok := ids[e.GetReason()]
		if !ok {
			return fmt.Errorf("punting packets dropped for %q: %w", e.GetReason(),
				vswitch.Unsupported("unknown reason: `show punt reasons` lists VPP's"))
		}
		err = v.registerSocket(ctx, puntException(id), e.GetSocketPath())
	}
	if err != nil {
		return fmt.Errorf("punting packets dropped for %q: %w", e.GetReason(), err)
	}
	return nil
}

func (v puntExceptions) Delete(ctx context.Context, e *vpp_punt.Exception) error {
	ids, err := v.reasons(ctx)
	if id, ok := ids[e.GetReason()]; ok && err == nil {
		err = v.vpp.Call(ctx, module, &punt.PuntSocketDeregister{Punt: puntException(id)}, &punt.PuntSocketDeregisterReply{})
	}
	if err != nil {
		return fmt.Errorf("no longer punting packets dropped for %q: %w", e.GetReason(), err)
	}
	return nil
}

func (v puntExceptions) List(ctx context.Context, _ []*vpp_punt.Exception) ([]*vpp_punt.Exception, error) {
	ids, err := v.reasons(ctx)
	sockets, err2 := v.puntSockets(ctx, punt.PUNT_API_TYPE_EXCEPTION)
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("listing punted exceptions: %w", err)
	}
	names := map[uint32]string{}
	for name, id := range ids {
		names[id] = name
	}
	var list []*vpp_punt.Exception
	for _, s := range sockets {
		list = append(list, &vpp_punt.Exception{
			Reason: names[s.Punt.Punt.GetException().ID], SocketPath: strings.TrimRight(s.Pathname, "\x00"),
		})
	}
	return list, nil
}
