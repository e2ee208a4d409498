package ctl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/models/manifest"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

func (g *configuring) editCommand() *cobra.Command {
	var o applying
	cmd := &cobra.Command{
		Use:   "edit [KEY|MODEL]...",
		Short: "Edit the client's values in a text editor",
		Long: "Open the client's values, or the given ones, in the editor named by VISUAL or EDITOR (default vi),\n" +
			"and apply the edited text. Documents deleted from the text are deleted on the node. If the text\n" +
			"cannot be applied, the editor opens again with the reason; save it unchanged to cancel.",
		RunE: func(cmd *cobra.Command, args []string) error { return g.edit(cmd, args, o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.revert, "revert", false, "undo the whole transaction if a value fails (not with --via etcd)")
	f.BoolVar(&o.wait, "wait", false, "wait until all values are configured or have failed permanently")
	return cmd
}

func (g *configuring) edit(cmd *cobra.Command, words []string, o applying) error {
	ctx, cancel := g.limited(cmd)
	defer cancel()
	c, before, err := g.own(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if before, err = meantBy(words, before); err != nil {
		return err
	}
	text, err := formatManifest(before)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "contivctl-edit")
	if err != nil {
		return err
	}
	e := &editing{cmd: cmd, path: filepath.Join(dir, "values.yaml"), original: text, text: text}
	for {
		want, err := e.run()
		if errors.Is(err, errUnchanged) {
			defer os.RemoveAll(dir)
			fmt.Fprintf(g.errOut, "%s: nothing was changed\n", g.name)
			return nil
		}
		if errors.Is(err, errGivenUp) || errors.Is(err, errEditor) {
			return fmt.Errorf("%w: the text is in %s", err, e.path)
		}
		if err == nil {
			err = g.applyEdited(cmd, c, before, want, o)
		}
		var impossible *client.RequestError
		reverted, failed := errors.AsType[*client.TransactionError](err)
		_, refused := errors.AsType[*refusedError](err)
		if e.invalid = err; e.invalid == nil || !refused && !errors.As(err, &impossible) && !e.unreadable && !(failed && reverted.Reverted) {
			os.RemoveAll(dir)
			return err
		}
	}
}

// applyEdited starts a new timeout, because editing takes longer than --timeout.
func (g *configuring) applyEdited(cmd *cobra.Command, c *client.Client, before []client.Value, want *parsed, o applying) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), g.targets.Timeout)
	defer cancel()
	var removed []string
	for _, v := range before {
		if _, stays := want.origin[v.Key]; !stays {
			removed = append(removed, v.Key)
		}
	}
	changed := &parsed{origin: want.origin}
	for _, v := range want.values {
		if !contains(before, v) {
			changed.values = append(changed.values, v)
		}
	}
	if err := g.refuseInvalid(ctx, changed); err != nil {
		return err
	}
	txn := c.Txn().Put(changed.messages()...).DeleteKeys(removed...)
	return g.commit(ctx, c, txn, o, done(before, changed, removed))
}

func contains(values []client.Value, v manifest.Value) bool {
	for _, have := range values {
		if have.Key == v.Key && proto.Equal(have.Message, v.Message) {
			return true
		}
	}
	return false
}

var (
	errUnchanged = errors.New("unchanged")
	errGivenUp   = errors.New("the change was cancelled")
	errEditor    = errors.New("the editor failed")
)

// editing is a text that the user edits.
type editing struct {
	cmd            *cobra.Command
	path           string
	original, text []byte
	// invalid is why the text could not be applied, initially nil. unreadable reports whether no
	// values could be read.
	invalid    error
	unreadable bool
}

// run opens the editor and reads the result.
func (e *editing) run() (*parsed, error) {
	if err := os.WriteFile(e.path, append(e.header(), e.text...), 0o600); err != nil {
		return nil, err
	}
	if err := e.editor(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(e.path)
	if err != nil {
		return nil, err
	}
	text := withoutHeader(data)
	switch {
	case bytes.Equal(text, e.text) && e.invalid != nil:
		return nil, fmt.Errorf("%w: %w", errGivenUp, e.invalid)
	case bytes.Equal(text, e.original):
		return nil, errUnchanged
	}
	e.text = text
	want := &parsed{origin: make(map[string]string)}
	// Line numbers in errors refer to the reopened text, header included.
	err = want.add(e.path, nil)
	e.unreadable = err != nil
	return want, err
}

// The shell runs the editor, because VISUAL and EDITOR may contain arguments.
func (e *editing) editor() error {
	name := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	run := exec.CommandContext(e.cmd.Context(), "sh", "-c", name+` "$1"`, "sh", e.path)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := run.Run(); err != nil {
		return fmt.Errorf("%w: %s: %w", errEditor, name, err)
	}
	return nil
}

const headerMark = "#! "

func (e *editing) header() []byte {
	lines := []string{"One document per value; remove a document to remove its value.", "Lines like these are left out."}
	if e.invalid != nil {
		lines = append([]string{"This could not be applied:"}, strings.Split(e.invalid.Error(), "\n")...)
	}
	return []byte(headerMark + strings.Join(lines, "\n"+headerMark) + "\n")
}

func withoutHeader(data []byte) []byte {
	for bytes.HasPrefix(data, []byte(headerMark)) {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return data
}
