package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// keepInterval is the interval of Keep's checks. uninstallPatience bounds Uninstall's wait for a
// Keep to stop.
const (
	keepInterval      = time.Second
	uninstallPatience = 10 * time.Second
)

// leaveName is a file in NetDir that makes a Keep stop without a repair. Runtimes ignore it.
const leaveName = "." + ConflistName + ".leave"

var errLeave = errors.New("uninstalled: files are no longer restored")

// Keep installs the files and restores them when they are removed or changed. As in Install, the
// configuration requires a ready agent. Keep stops its repairs on Uninstall, and returns when ctx
// ends. It returns an error of the first installation, and logs and retries later ones.
func Keep(ctx context.Context, o Options) error {
	if err := os.MkdirAll(o.NetDir, 0o755); err != nil {
		return err
	}
	lock, err := lockDir(o.NetDir, unix.LOCK_SH)
	if err != nil {
		return fmt.Errorf("lock %s: %w", o.NetDir, err)
	}
	defer lock.Close()
	if err := os.Remove(o.leavePath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // left by a killed Uninstall
	}
	kept, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		o.awaitLeave(kept, leave)
	}()
	err = keep(kept, o)
	leave(nil)
	<-watched
	if errors.Is(context.Cause(kept), errLeave) {
		o.Log.Info("Stopping", "reason", errLeave)
		lock.Close()
		<-ctx.Done()
		return nil
	}
	return err
}

func keep(ctx context.Context, o Options) error {
	done, err := install(ctx, o)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(keepInterval)
	defer ticker.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		damage := done.damage(o)
		if damage == nil {
			continue
		}
		o.Log.Warn("Restored installed files that another program changed", "found", damage)
		again, err := install(ctx, o)
		switch {
		case err == nil:
			done, said = again, ""
		case err.Error() != said && ctx.Err() == nil:
			said = err.Error()
			o.Log.Error("Restoring installed files failed, retrying", "error", err)
		}
	}
}

func (o *Options) awaitLeave(ctx context.Context, leave context.CancelCauseFunc) {
	ticker := time.NewTicker(keepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if _, err := os.Lstat(o.leavePath()); err == nil {
				leave(errLeave)
				return
			}
		}
	}
}

type installed struct {
	program  fs.FileInfo
	conflist []byte
}

// damage returns an error that names the differences from the installation, or nil. It does not
// read the program.
func (i installed) damage(o Options) error {
	program, err := os.Stat(o.program())
	if err != nil {
		return err
	}
	if program.Size() != i.program.Size() || program.Mode() != i.program.Mode() || !program.ModTime().Equal(i.program.ModTime()) {
		return fmt.Errorf("%s is another file", o.program())
	}
	conflist, err := os.ReadFile(o.conflistPath())
	if err == nil && !bytes.Equal(conflist, i.conflist) {
		err = fmt.Errorf("%s has another content", o.conflistPath())
	}
	return err
}

func (o *Options) leavePath() string { return filepath.Join(o.NetDir, leaveName) }

// lockDir locks a directory until the returned file is closed. how is an operation of flock(2).
func lockDir(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// askToLeave stops a running Keep of the directory, until release is called.
func (o *Options) askToLeave() (release func() error, err error) {
	var asked bool
	deadline := time.Now().Add(uninstallPatience)
	for {
		lock, err := lockDir(o.NetDir, unix.LOCK_EX)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return func() error { return nil }, nil
		case err == nil:
			return func() error {
				defer lock.Close()
				if !asked {
					return nil
				}
				return os.Remove(o.leavePath())
			}, nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, fmt.Errorf("lock %s: %w", o.NetDir, err)
		case time.Now().After(deadline):
			return nil, errors.Join(fmt.Errorf("another contiv-cni install is running in %s: stop it first", o.NetDir), os.Remove(o.leavePath()))
		}
		if !asked {
			if err := os.WriteFile(o.leavePath(), nil, 0o600); err != nil {
				return nil, err
			}
			asked = true
		}
		time.Sleep(50 * time.Millisecond) // flock(2) has no timeout
	}
}
