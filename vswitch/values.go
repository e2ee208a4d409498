package vswitch

import (
	"bytes"
	"context"
	"net"
	"net/netip"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

type item[V proto.Message] = kvscheduler.Item[V, noMeta]

// retrieve turns a List method of the port into a Retrieve callback.
func retrieve[V proto.Message](list func(context.Context, []V) ([]V, error)) func(context.Context, []item[V]) ([]item[V], error) {
	return func(ctx context.Context, expected []item[V]) ([]item[V], error) {
		values, err := list(ctx, valuesOf(expected))
		if err != nil {
			return nil, err
		}
		return itemsOf(values), nil
	}
}

func valuesOf[V proto.Message](items []item[V]) []V {
	values := make([]V, len(items))
	for i, it := range items {
		values[i] = it.Value
	}
	return values
}

func itemsOf[V proto.Message](values []V) []item[V] {
	items := make([]item[V], len(values))
	for i, v := range values {
		items[i] = item[V]{Key: models.Key(v), Value: v, Origin: kvscheduler.FromNB}
	}
	return items
}

// create, update and remove turn methods of the port into callbacks.

func create[V proto.Message](do func(context.Context, V) error) func(context.Context, string, V) (noMeta, error) {
	return func(ctx context.Context, _ string, v V) (noMeta, error) { return noMeta{}, do(ctx, v) }
}

func update[V proto.Message](do func(context.Context, V, V) error) func(context.Context, string, V, V, noMeta) (noMeta, error) {
	return func(ctx context.Context, _ string, old, new V, _ noMeta) (noMeta, error) {
		return noMeta{}, do(ctx, old, new)
	}
}

func remove[V proto.Message](do func(context.Context, V) error) func(context.Context, string, V, noMeta) error {
	return func(ctx context.Context, _ string, v V, _ noMeta) error { return do(ctx, v) }
}

// empty is the value of derived keys that say everything themselves.
func empty() *emptypb.Empty { return &emptypb.Empty{} }

// samePrefixText reports whether two texts are the same address with prefix length.
func samePrefixText(a, b string) bool {
	pa, errA := netip.ParsePrefix(a)
	pb, errB := netip.ParsePrefix(b)
	if errA != nil || errB != nil {
		return a == b
	}
	return pa == pb
}

// sameAddrText reports whether two texts are the same address.
func sameAddrText(a, b string) bool {
	pa, errA := netip.ParseAddr(a)
	pb, errB := netip.ParseAddr(b)
	if errA != nil || errB != nil {
		return a == b
	}
	return pa == pb
}

// sameMACText reports whether two texts are the same hardware address.
func sameMACText(a, b string) bool {
	ma, errA := net.ParseMAC(a)
	mb, errB := net.ParseMAC(b)
	if errA != nil || errB != nil {
		return a == b
	}
	return bytes.Equal(ma, mb)
}

func validMAC(field, mac string) error {
	if hw, err := net.ParseMAC(mac); err != nil || len(hw) != 6 {
		return invalid(field, "%q is no MAC address: write it like 02:fe:12:34:56:78", mac)
	}
	return nil
}

func validAddr(field, addr string) error {
	if _, err := netip.ParseAddr(addr); err != nil {
		return invalid(field, "%q is no IP address: write it like 10.1.1.1 or fd00::1", addr)
	}
	return nil
}

func validPrefix(field, prefix string) error {
	if _, err := netip.ParsePrefix(prefix); err != nil {
		return invalid(field, "%q is no IP address with prefix length: write it like 10.1.1.1/24 or fd00::1/64", prefix)
	}
	return nil
}

func addrLess(a, b string) bool {
	pa, errA := netip.ParseAddr(a)
	pb, errB := netip.ParseAddr(b)
	return errA == nil && errB == nil && pa.Less(pb)
}
