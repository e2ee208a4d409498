package proxy

import (
	"fmt"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
)

// OtherProxies detects other service proxies on this node, such as kube-proxy. It is safe for concurrent
// use.
//
// Packets of pods bypass the host's stack if the vswitch has its own. With services: vswitch,
// kube-proxy may then run for the host's processes, and owns the host's addresses. By default,
// services are left to kube-proxy there, too.
type OtherProxies struct {
	conflicting detector // proxies that would translate the same packets
	onHost      detector // proxies for the host's processes
}

func newOtherProxies(node *localnode.Node, find func() (string, error)) *OtherProxies {
	if !node.Caps.HostStackShared && node.Settings.Services == config.VSwitch {
		return &OtherProxies{onHost: detector{find: find}}
	}
	return &OtherProxies{conflicting: detector{find: find}}
}

// scan looks for other proxies and records them.
func (o *OtherProxies) scan() {
	o.conflicting.scan()
	o.onHost.scan()
}

// Conflicting returns the trace of a proxy that would translate the same packets as the vswitch, or
// "". Known is false before the first resync.
func (o *OtherProxies) Conflicting() (trace string, known bool) { return o.conflicting.last() }

func (o *OtherProxies) conflict() bool {
	trace, _ := o.Conflicting()
	return trace != ""
}

// OnHost returns the trace of a proxy that owns the addresses of the host, or "".
func (o *OtherProxies) OnHost() string {
	trace, _ := o.onHost.last()
	return trace
}

// Since returns the time at which the conflicting proxy was first detected.
func (o *OtherProxies) Since() time.Time { return o.conflicting.detectedAt() }

// compare looks for other proxies without recording them. It returns a text for the result, and one
// for the result of the last scan.
func (o *OtherProxies) compare() (now, last string) {
	lastConflicting, _ := o.conflicting.last()
	return Detect(o.conflicting.find) + " " + Detect(o.onHost.find), lastConflicting + " " + o.OnHost()
}

// Detect returns the trace of another proxy, or "". An error counts as a trace, because translating
// twice is worse than not translating. A nil function finds none.
func Detect(find func() (string, error)) string {
	if find == nil {
		return ""
	}
	trace, err := find()
	if err != nil {
		return fmt.Sprint(err)
	}
	return trace
}

// detector records the service proxy found by the last resync.
type detector struct {
	find func() (string, error) // nil finds none

	mu    sync.Mutex
	known bool
	trace string // "" for none
	since time.Time
}

func (d *detector) scan() {
	trace := Detect(d.find)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.known || d.trace != trace {
		d.since = time.Now()
	}
	d.known, d.trace = true, trace
}

// last returns the result of the last scan; known is false before the first one.
func (d *detector) last() (trace string, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trace, d.known
}

func (d *detector) detectedAt() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since
}
