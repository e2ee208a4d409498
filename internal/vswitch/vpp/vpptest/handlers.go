package vpptest

import (
	"reflect"
	"strings"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/binapi/vlib"
	"go.fd.io/govpp/binapi/vpe"
)

// state is the configuration of a VPP process, a part per area.
type state struct {
	pid  uint32
	ifs  ifState
	acl  aclState
	nat  natState
	cnat cnatState
	sr   segments
	extras
	ipState
	l2       l2State
	classify classifyState
	l3       l3Features
	capture  string // file of the capture of dropped packets; "" if none
}

func newState() *state {
	return &state{
		ifs: newIfState(), ipState: newIPState(), l2: newL2State(), l3: newL3Features(),
		acl: newACLState(), nat: newNATState(), cnat: newCNATState(), classify: newClassifyState(),
	}
}

// call is a request being handled.
type call struct {
	*state
	server *Server
	client *client // nil: the test itself
	send   func(api.Message)
}

// ends fails the test because the request crashes VPP 25.10.
func (c *call) ends(why string) api.VPPApiError {
	c.server.t.Errorf("VPP ends: %s", why)
	return api.UNSPECIFIED
}

// notify sends an event to all subscribed clients.
func (c *call) notify(event api.Message) {
	if c.server.deaf {
		return
	}
	for cl := range c.server.clients {
		if cl.wants[event.GetMessageName()] {
			cl.send(0, event)
			_ = cl.w.Flush()
		}
	}
}

// want records whether the client subscribes to an event.
func (c *call) want(event api.Message, wanted bool) {
	if c.client == nil {
		return
	}
	if c.client.wants == nil {
		c.client.wants = map[string]bool{}
	}
	c.client.wants[event.GetMessageName()] = wanted
}

// handlers maps request names to handlers; messages holds all known messages.
var (
	handlers = map[string]func(*call, api.Message){}
	messages = map[string]api.Message{}
)

// commands maps CLI commands to handlers.
var commands = map[string]func(*call) string{}

// on registers the handler of a request with one reply. retval 0 is success; like VPP, it sends the
// reply's fields also with others.
func on[R, P any, Req interface {
	*R
	api.Message
}, Rep interface {
	*P
	api.Message
}](handle func(c *call, req Req, reply Rep) (retval api.VPPApiError)) {
	register(Req(new(R)))
	register(Rep(new(P)))
	handlers[Req(new(R)).GetMessageName()] = func(c *call, req api.Message) {
		reply := Rep(new(P))
		code := handle(c, req.(Req), reply)
		setRetval(reply, code)
		c.send(reply)
	}
}

// onDump registers the handler of a request answered by details.
func onDump[R, D any, Req interface {
	*R
	api.Message
}, Det interface {
	*D
	api.Message
}](list func(c *call, req Req, send func(Det))) {
	register(Req(new(R)))
	register(Det(new(D)))
	handlers[Req(new(R)).GetMessageName()] = func(c *call, req api.Message) {
		list(c, req.(Req), func(details Det) { c.send(details) })
	}
}

// onGet registers the handler of a request answered by details and a reply.
func onGet[R, D, P any, Req interface {
	*R
	api.Message
}, Det interface {
	*D
	api.Message
}, Rep interface {
	*P
	api.Message
}](list func(c *call, req Req, send func(Det), reply Rep) (retval api.VPPApiError)) {
	register(Req(new(R)))
	register(Det(new(D)))
	register(Rep(new(P)))
	handlers[Req(new(R)).GetMessageName()] = func(c *call, req api.Message) {
		reply := Rep(new(P))
		code := list(c, req.(Req), func(details Det) { c.send(details) }, reply)
		setRetval(reply, code)
		c.send(reply)
	}
}

// register registers an event message.
func register(m api.Message) { messages[m.GetMessageName()] = m }

// refuse answers with the request's reply and the code; dumps get no answer.
func (c *call) refuse(req api.Message, code api.VPPApiError) {
	if reply := messages[req.GetMessageName()+"_reply"]; reply != nil {
		reply = newMessage(reply)
		setRetval(reply, code)
		c.send(reply)
	}
}

func setRetval(reply api.Message, code api.VPPApiError) {
	if f := reflect.ValueOf(reply).Elem().FieldByName("Retval"); f.IsValid() {
		f.SetInt(int64(code))
	}
}

func newMessage(m api.Message) api.Message { return reflect.New(typeOf(m)).Interface().(api.Message) }
func typeOf(m api.Message) reflect.Type    { return reflect.TypeOf(m).Elem() }

func handleBasics() {
	on(func(c *call, _ *memclnt.ControlPing, reply *memclnt.ControlPingReply) api.VPPApiError {
		reply.VpePID = c.pid
		return 0
	})
	on(func(_ *call, _ *vpe.ShowVersion, reply *vpe.ShowVersionReply) api.VPPApiError {
		reply.Program, reply.Version = "vpe", "25.10-vpptest"
		return 0
	})
	// VPP reports an unknown command as text.
	on(func(c *call, req *vlib.CliInband, reply *vlib.CliInbandReply) api.VPPApiError {
		if run := commands[req.Cmd]; run != nil {
			reply.Reply = run(c)
			return 0
		}
		for prefix, run := range commandsAbout {
			if args, ok := strings.CutPrefix(req.Cmd, prefix); ok {
				reply.Reply = run(c, args)
				return 0
			}
		}
		reply.Reply = "unknown input `" + req.Cmd + "'\n"
		return api.INVALID_VALUE
	})
}
