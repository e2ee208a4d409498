package policies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel/drift"
	"github.com/contiv/contiv/vswitch/kernel/own"
)

// OnHost is the nftables of a host, changed by the program nft.
func OnHost(h *own.Host) NFT { return onHost{h} }

type onHost struct{ *own.Host }

func (h onHost) Locked(fn func() error) error { return h.NFT.Locked(fn) }

func (h onHost) Generation() (uint32, bool) { return h.NFT.Gen.Current() }

func (h onHost) Run(ctx context.Context, script string) error {
	return h.NFT.Gen.Own(func() error {
		_, err := run(ctx, script, "-f", "-")
		return err
	})
}

func (h onHost) Read(ctx context.Context, family, table string) ([]byte, error) {
	out, err := run(ctx, "", "-j", "list", "table", family, table)
	if errors.Is(err, exec.ErrNotFound) { // without the program we made no table
		return nil, fmt.Errorf("%w: %w", ErrNoTable, err)
	}
	return out, err
}

// run runs the program in the network namespace of the thread.
func run(ctx context.Context, input string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "nft", args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), &stderr
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	text, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("policies need the program nft, 1.0.1 or newer (Debian package nftables): %w", err)
	case strings.Contains(text, "No such file or directory") && input == "":
		return nil, fmt.Errorf("%w: %s", ErrNoTable, text)
	case strings.Contains(text, "Operation not supported"), strings.Contains(text, "Protocol not supported"):
		return nil, vswitch.Unsupported("policies: this Linux kernel lacks a part of nftables (tables inet, verdict maps, "+
			"concatenations, conntrack): %s", text)
	}
	return nil, fmt.Errorf("nft: %w: %s", err, text)
}

// Notice: no event of rtnetlink concerns policies.
func (*Driver) Notice(syscall.NetlinkMessage, func(drift.Notice)) {}

// Check reports the values if somebody else changed the table.
func (d *Driver) Check(b *drift.Batch) {
	host, ok := d.nft.(onHost)
	if ok && host.NFT.Foreign(drift.Suspects[nft.Change](b), family+" "+tableName) {
		b.Report(fmt.Sprintf("nftables table %q was changed", tableName), d.Keys()...)
	}
}
