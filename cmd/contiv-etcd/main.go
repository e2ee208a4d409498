// Command contiv-etcd runs the etcd of a Contiv cluster.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/contiv/contiv/etcdserver"
	"github.com/contiv/contiv/logline"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/version"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	syscall.Umask(0o077)
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "contiv-etcd:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var opts etcdserver.Options
	var quotaMiB, userMiB int64
	level := slog.LevelWarn
	c := &cobra.Command{
		Use:           "contiv-etcd",
		Short:         "Run the etcd that a Contiv cluster meets in",
		Long:          "Runs an etcd, or with --member one of its members. When it is ready, it prints one line with its endpoints on\nstandard output. SIGTERM and SIGINT stop it.",
		Args:          cobra.NoArgs,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			opts.Quota, opts.Limits.Bytes, opts.Owner = quotaMiB<<20, userMiB<<20, ownerOf
			opts.Logger = logline.New(os.Stderr, level)
			return run(c.Context(), opts)
		},
	}
	f := c.Flags()
	f.StringVar(&opts.DataDir, "data-dir", etcdserver.DefaultDataDir, "directory that keeps the data")
	f.StringArrayVar(&opts.ClientURLs, "listen-client", []string{etcdserver.DefaultClientURL}, "http[s]://IP:PORT or unix:///PATH to serve clients on; repeatable; port 0: any free port")
	f.StringVar(&opts.PeerURL, "listen-peer", "", "URL for raft (default: that of the member, or the port after the client's on loopback)")
	f.StringVar(&opts.Name, "name", etcdserver.DefaultName, "name of this member")
	f.StringToStringVar(&opts.Members, "member", nil, "NAME=https://IP:PORT of each member, this one included; repeatable (default: it is the only one)")
	f.StringVar(&opts.HealthURL, "listen-health", "", "http://IP:PORT to serve /livez, /readyz and /metrics on, without TLS (default: none)")
	f.StringVar(&opts.CertFile, "cert-file", "", "server certificate for https client URLs")
	f.StringVar(&opts.KeyFile, "key-file", "", "key of the server certificate")
	f.StringVar(&opts.ClientCAFile, "client-ca-file", "", "CA that must have signed the certificates of https clients")
	f.BoolVar(&opts.Users, "users", false, "take the common name of a client's certificate for its user, who may do what etcd's roles say; cannot be taken back")
	f.BoolVar(&opts.PlainText, "plain-text", false, "allow http at addresses other than loopback: everybody who reaches them can read and change all data")
	f.Int64Var(&quotaMiB, "quota-mib", etcdserver.DefaultQuota>>20, "size in MiB at which writes are refused")
	f.Int64Var(&userMiB, "user-mib", 0, "with --users: MiB of keys and values that one user may have, older revisions included (default: a sixteenth of --quota-mib)")
	f.IntVar(&opts.Limits.Keys, "user-keys", etcdserver.DefaultUserKeys, "with --users: keys that one user may have")
	f.IntVar(&opts.Limits.Leases, "user-leases", etcdserver.DefaultUserLeases, "with --users: leases that one user may have")
	f.IntVar(&opts.Limits.Watches, "user-watches", etcdserver.DefaultUserWatches, "with --users: watches and streams that one user may have open")
	f.DurationVar(&opts.CompactAfter, "compact-after", etcdserver.DefaultCompactAfter, "age at which old revisions are forgotten")
	f.DurationVar(&opts.SnapshotEvery, "snapshot-every", 0, "how often all data are written to a file in --snapshot-dir (default: never)")
	f.StringVar(&opts.SnapshotDir, "snapshot-dir", "", "directory of these snapshots, best on another disk")
	f.IntVar(&opts.SnapshotKeep, "snapshot-keep", etcdserver.DefaultSnapshotKeep, "how many of these snapshots are kept")
	f.BoolVar(&opts.UnsafeNoSync, "unsafe-no-fsync", false, "do not sync to disk: fast, and data may be lost with the machine")
	f.TextVar(&level, "log-level", slog.LevelWarn, "DEBUG, INFO, WARN or ERROR")
	c.AddCommand(snapshotCommand(&etcdserver.Options{}), restoreCommand(&etcdserver.Options{}), prepareCommand(&etcdserver.Options{}))
	return c
}

// ownerOf returns the user of the node that writes the key, or "" for other keys,
// such as KSR's.
func ownerOf(key string) string {
	rest, ok := strings.CutPrefix(key, models.AgentPrefix)
	node, _, inside := strings.Cut(rest, "/")
	if !ok || !inside || strings.HasPrefix(key, models.KSRPrefix) {
		return ""
	}
	return "node:" + node
}

func run(ctx context.Context, opts etcdserver.Options) error {
	return etcdserver.Serve(ctx, opts, func(s *etcdserver.Server) {
		fmt.Printf("contiv-etcd is ready: endpoints=%s data-dir=%s\n", strings.Join(s.Endpoints(), ","), opts.DataDir)
	})
}
