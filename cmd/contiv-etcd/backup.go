package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/contiv/contiv/etcdserver"
	"github.com/spf13/cobra"
)

func snapshotCommand(opts *etcdserver.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot FILE",
		Short: "Write all data of the contiv-etcd that serves the data directory to a file",
		Long: "Writes all data of the contiv-etcd that serves the data directory to a file, \"-\" being standard output, in the\n" +
			"form of \"etcdctl snapshot save\". Who can read the file can read all that etcd has.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			take := func(w io.Writer) error { return etcdserver.AskSnapshot(c.Context(), opts.DataDir, w) }
			var err error
			if args[0] == "-" {
				err = take(c.OutOrStdout())
			} else {
				err = etcdserver.WriteSnapshotFile(args[0], take)
			}
			if errors.Is(err, etcdserver.ErrNotServed) {
				return fmt.Errorf("%w: start it, or name its directory with --data-dir", err)
			}
			return err
		},
	}
	c.Flags().StringVar(&opts.DataDir, "data-dir", etcdserver.DefaultDataDir, "directory of the data")
	return c
}

func restoreCommand(opts *etcdserver.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Replace all data by those of a snapshot",
		Long: "Replaces all data by those of a snapshot, \"-\" being standard input: of the contiv-etcd that serves the data directory, which\n" +
			"is away for a moment, or in the directory, if none serves it. What was there before remains in its directory\n\"" + etcdserver.ReplacedDir + "\" until the next time. " +
			"Agents and KSR notice, and bring up to date what Kubernetes has changed since.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return restore(c.Context(), args[0], c.InOrStdin(), *opts)
		},
	}
	c.Flags().StringVar(&opts.DataDir, "data-dir", etcdserver.DefaultDataDir, "directory of the data")
	c.Flags().StringVar(&opts.Name, "name", etcdserver.DefaultName, "name of this member, of several ones that do not run")
	c.Flags().StringToStringVar(&opts.Members, "member", nil, "NAME=https://IP:PORT of each of these members; repeatable")
	return c
}

func restore(ctx context.Context, name string, stdin io.Reader, opts etcdserver.Options) error {
	if name == "-" {
		if err := os.MkdirAll(opts.DataDir, 0o700); err != nil {
			return err
		}
		name = filepath.Join(opts.DataDir, "restore-from-standard-input.db")
		defer os.Remove(name)
		if err := etcdserver.WriteSnapshotFile(name, func(w io.Writer) error { _, err := io.Copy(w, stdin); return err }); err != nil {
			return fmt.Errorf("read the snapshot from standard input: %w", err)
		}
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := etcdserver.AskRestore(ctx, opts.DataDir, f); !errors.Is(err, etcdserver.ErrNotServed) {
		return err
	}
	return etcdserver.Restore(name, opts)
}

func prepareCommand(opts *etcdserver.Options) *cobra.Command {
	var owner int
	c := &cobra.Command{
		Use:   "prepare",
		Short: "Make directories and give them to the user that is to run contiv-etcd",
		Long:  "Makes the directories of data and snapshots, and gives them, with all that is in them, to the user that is to run\ncontiv-etcd. It needs the capability CAP_CHOWN.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			for _, dir := range []string{opts.DataDir, opts.SnapshotDir} {
				if dir == "" {
					continue
				}
				if err := giveTo(dir, owner); err != nil {
					return fmt.Errorf("give %s to the user %d: %w", dir, owner, err)
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&opts.DataDir, "data-dir", etcdserver.DefaultDataDir, "directory of the data")
	c.Flags().StringVar(&opts.SnapshotDir, "snapshot-dir", "", "directory of scheduled snapshots (default: none)")
	c.Flags().IntVar(&owner, "owner", 0, "number of the user")
	return c
}

// giveTo creates the directory if necessary and changes the owner of its contents. It does not
// follow links, so that it cannot change files elsewhere.
func giveTo(dir string, user int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(path, user, user)
	})
}
