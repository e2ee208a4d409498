package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	etcdserver "github.com/contiv/contiv/internal/etcd/server"
	"github.com/spf13/cobra"
)

func snapshotCommand(opts *etcdserver.Options) *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot FILE",
		Short: "Save all data of a running contiv-etcd to a file",
		Long: "Save all data of the contiv-etcd running on --data-dir to a file, or to standard output if FILE is \"-\".\n" +
			"The format is the one of \"etcdctl snapshot save\". The file contains all secrets stored in etcd.",
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
				return fmt.Errorf("%w: start it, or set its directory with --data-dir", err)
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
		Short: "Replace all data with a snapshot",
		Long: "Replace all data with a snapshot, read from standard input if FILE is \"-\". A contiv-etcd running on\n" +
			"--data-dir restarts with the new data; otherwise the directory is changed directly. The replaced data\n" +
			"remain in its subdirectory \"" + etcdserver.ReplacedDir + "\" until the next restore. Agents and KSR detect the restore\n" +
			"and apply later changes of Kubernetes again.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return restore(c.Context(), args[0], c.InOrStdin(), *opts)
		},
	}
	c.Flags().StringVar(&opts.DataDir, "data-dir", etcdserver.DefaultDataDir, "directory of the data")
	c.Flags().StringVar(&opts.Name, "name", etcdserver.DefaultName, "name of this member, if several members are restored while stopped")
	c.Flags().StringToStringVar(&opts.Members, "member", nil, "name and peer URL, NAME=https://IP:PORT, of each member; repeatable (default: a single member)")
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
		Short: "Create the directories of contiv-etcd and change their owner",
		Long: "Create the directories of data and snapshots, and change the owner of them and their contents to the\n" +
			"user that runs contiv-etcd. Requires the capability CAP_CHOWN.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			for _, dir := range []string{opts.DataDir, opts.SnapshotDir} {
				if dir == "" {
					continue
				}
				if err := giveTo(dir, owner); err != nil {
					return fmt.Errorf("change the owner of %s to user %d: %w", dir, owner, err)
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&opts.DataDir, "data-dir", etcdserver.DefaultDataDir, "directory of the data")
	c.Flags().StringVar(&opts.SnapshotDir, "snapshot-dir", "", "directory of scheduled snapshots (default: none)")
	c.Flags().IntVar(&owner, "owner", 0, "ID of the user")
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
