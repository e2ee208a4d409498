package vppapi

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/codec"
)

// Pending is a request without reply yet.
type Pending struct {
	c       *Conn
	req     api.Message
	request uint32
	done    chan struct{}
	got     []answer // may be read after done
	err     error
}

type answer struct {
	id   uint16
	data []byte
}

// Start sends a request without waiting for the reply. VPP answers requests in order. The caller
// must call Wait.
func (c *Conn) Start(ctx context.Context, req api.Message) *Pending {
	p := &Pending{c: c, req: req, done: make(chan struct{})}
	var err error
	p.request, err = c.send(ctx, req, func(id uint16, data []byte, err error) bool {
		p.got, p.err = append(p.got, answer{id, data}), err
		close(p.done)
		return false
	})
	if err != nil {
		p.err = err
		p.done = nil
	}
	return p
}

// Wait waits for the reply. A refusal is a *ReplyError; the other fields of reply are set
// nevertheless.
func (p *Pending) Wait(ctx context.Context, reply api.Message) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	return p.c.decode(p.req, p.got[0], reply)
}

func (p *Pending) wait(ctx context.Context) error {
	if p.done == nil {
		return p.err
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.c.forget(p.request)
		return fmt.Errorf("waiting for VPP to answer %s: %w", p.req.GetMessageName(), ctx.Err())
	}
}

// Call sends a request and waits for its reply; see Wait.
func (c *Conn) Call(ctx context.Context, req, reply api.Message) error {
	return c.Start(ctx, req).Wait(ctx, reply)
}

func (c *Conn) decode(req api.Message, a answer, reply api.Message) error {
	if want, err := c.id(reply); err != nil {
		return err
	} else if a.id != want {
		return fmt.Errorf("VPP answered %s with %s instead of %s", req.GetMessageName(), c.names[a.id], reply.GetMessageName())
	}
	if err := codec.DecodeMsg(a.data, reply); err != nil {
		return fmt.Errorf("decoding %s: %w", reply.GetMessageName(), err)
	}
	if code := retval(reply); code != 0 {
		return &ReplyError{Request: req.GetMessageName(), Code: api.VPPApiError(code)}
	}
	return nil
}

// retval returns the return code of a reply.
func retval(reply api.Message) int32 {
	if f := reflect.ValueOf(reply).Elem().FieldByName("Retval"); f.IsValid() && f.Kind() == reflect.Int32 {
		return int32(f.Int())
	}
	return 0
}

// Dump is a pending request that is answered by messages of type D.
type Dump[D any, M interface {
	*D
	api.Message
}] struct {
	pending, end *Pending
}

// StartDump requests all objects of a kind, followed by a ping whose reply marks the end. The
// caller must call Wait.
func StartDump[D any, M interface {
	*D
	api.Message
}](ctx context.Context, c *Conn, req api.Message) *Dump[D, M] {
	p := &Pending{c: c, req: req, done: make(chan struct{})}
	err := c.expect(M(new(D)))
	if err == nil {
		p.request, err = c.send(ctx, req, func(id uint16, data []byte, err error) bool {
			p.got = append(p.got, answer{id, data})
			return true
		})
	}
	if err != nil {
		p.err, p.done = err, nil
		return &Dump[D, M]{pending: p}
	}
	return &Dump[D, M]{pending: p, end: c.Start(ctx, &memclnt.ControlPing{})}
}

// Wait waits for the end of the answers.
func (d *Dump[D, M]) Wait(ctx context.Context) ([]M, error) {
	p := d.pending
	if p.done == nil {
		return nil, p.err
	}
	err := d.end.Wait(ctx, &memclnt.ControlPingReply{})
	p.c.forget(p.request)
	if err != nil {
		return nil, err
	}
	result := make([]M, 0, len(p.got))
	for _, a := range p.got {
		details := M(new(D))
		if err := p.c.decode(p.req, a, details); err != nil {
			return nil, err
		}
		result = append(result, details)
	}
	return result, nil
}

// DumpAll returns all objects of a kind.
func DumpAll[D any, M interface {
	*D
	api.Message
}](ctx context.Context, c *Conn, req api.Message) ([]M, error) {
	return StartDump[D, M](ctx, c, req).Wait(ctx)
}

// GetAll is like DumpAll for requests (…_get) answered by details and a reply, which may announce
// more; next returns the following request.
func GetAll[D any, M interface {
	*D
	api.Message
}](ctx context.Context, c *Conn, req, reply api.Message, next func() api.Message) (result []M, err error) {
	for {
		p := &Pending{c: c, req: req, done: make(chan struct{})}
		last, err := c.id(reply)
		if err := errors.Join(err, c.expect(M(new(D)))); err != nil {
			return nil, err
		}
		p.request, err = c.send(ctx, req, func(id uint16, data []byte, err error) bool {
			p.got, p.err = append(p.got, answer{id, data}), err
			if id == last || err != nil {
				close(p.done)
				return false
			}
			return true
		})
		if err != nil {
			return nil, err
		}
		if err := p.wait(ctx); err != nil {
			return nil, err
		}
		for _, a := range p.got[:len(p.got)-1] {
			details := M(new(D))
			if err := c.decode(req, a, details); err != nil {
				return nil, err
			}
			result = append(result, details)
		}
		err = c.decode(req, p.got[len(p.got)-1], reply)
		if !errors.Is(err, api.EAGAIN) {
			return result, err
		}
		req = next()
	}
}
