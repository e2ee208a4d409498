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

	etcdserver "github.com/contiv/contiv/internal/etcd/server"
	"github.com/contiv/contiv/internal/lib/logline"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/contiv/contiv/models"
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
		Use:   "contiv-etcd",
		Short: "Run the etcd server of a Contiv cluster",
		Long: "Run the etcd server of a Contiv cluster, or one member of it with --member. When the server is ready,\n" +
			"it prints its endpoints on standard output. SIGTERM and SIGINT stop it.",
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
	f.StringVar(&opts.DataDir, "data-dir", etcdserver.DefaultDataDir, "directory of the data")
	f.StringArrayVar(&opts.ClientURLs, "listen-client", []string{etcdserver.DefaultClientURL}, "URL to serve clients on, http[s]://IP:PORT or unix:///PATH; port 0: any free port; repeatable")
	f.StringVar(&opts.PeerURL, "listen-peer", "", "URL for raft (default: the URL of this member in --member, or else loopback with the client port plus one)")
	f.StringVar(&opts.Name, "name", etcdserver.DefaultName, "name of this member")
	f.StringToStringVar(&opts.Members, "member", nil, "name and peer URL, NAME=https://IP:PORT, of each member including this one; repeatable (default: a single member)")
	f.StringVar(&opts.HealthURL, "listen-health", "", "URL to serve /livez, /readyz and /metrics on without TLS, http://IP:PORT (default: none)")
	f.StringVar(&opts.CertFile, "cert-file", "", "server certificate for https:// client URLs (PEM)")
	f.StringVar(&opts.KeyFile, "key-file", "", "private key of --cert-file (PEM)")
	f.StringVar(&opts.ClientCAFile, "client-ca-file", "", "certificate authority of https:// clients, which must show a certificate (PEM)")
	f.BoolVar(&opts.Users, "users", false, "authenticate clients by the common name of their certificate and authorize them by etcd's roles; cannot be disabled later")
	f.BoolVar(&opts.PlainText, "plain-text", false, "allow http:// on addresses other than loopback, where anyone can read and change all data")
	f.Int64Var(&quotaMiB, "quota-mib", etcdserver.DefaultQuota>>20, "maximum size of the database in MiB; further writes are refused")
	f.Int64Var(&userMiB, "user-mib", 0, "with --users: maximum MiB of keys and values per user, including older revisions (default: 1/16 of --quota-mib)")
	f.IntVar(&opts.Limits.Keys, "user-keys", etcdserver.DefaultUserKeys, "with --users: maximum number of keys per user")
	f.IntVar(&opts.Limits.Leases, "user-leases", etcdserver.DefaultUserLeases, "with --users: maximum number of leases per user")
	f.IntVar(&opts.Limits.Watches, "user-watches", etcdserver.DefaultUserWatches, "with --users: maximum number of open watches and streams per user")
	f.DurationVar(&opts.CompactAfter, "compact-after", etcdserver.DefaultCompactAfter, "age at which old revisions are compacted")
	f.DurationVar(&opts.SnapshotEvery, "snapshot-every", 0, "interval of scheduled snapshots (default: no snapshots)")
	f.StringVar(&opts.SnapshotDir, "snapshot-dir", "", "directory of scheduled snapshots, preferably on another disk (default: none)")
	f.IntVar(&opts.SnapshotKeep, "snapshot-keep", etcdserver.DefaultSnapshotKeep, "number of scheduled snapshots to keep")
	f.BoolVar(&opts.UnsafeNoSync, "unsafe-no-fsync", false, "do not sync to disk: faster, but a crash of the machine can lose data")
	f.TextVar(&level, "log-level", slog.LevelWarn, "log level: DEBUG, INFO, WARN or ERROR")
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
