package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// temporary is the name pattern of incomplete files. Runtimes only read names that end in .conf,
// .conflist or .json.
func temporary(name string) string { return "." + name + ".tmp-*" }

// replace writes the content to the file atomically and syncs it. It does not touch an identical
// file.
func replace(path string, mode os.FileMode, content io.Reader) (changed bool, err error) {
	dir, name := filepath.Split(path)
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	file, err := os.CreateTemp(dir, temporary(name))
	if err != nil {
		return false, err
	}
	defer os.Remove(file.Name()) // no effect after the rename
	defer file.Close()
	if _, err := io.Copy(file, content); err != nil {
		return false, err
	}
	if same, err := haveSameContent(path, mode, file); err != nil || same {
		return false, err
	}
	if err := errors.Join(file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return false, err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return false, err
	}
	return true, syncDir(dir)
}

// haveSameContent compares the file at the path, which may be missing, with a written one.
func haveSameContent(path string, mode os.FileMode, written *os.File) (bool, error) {
	old, err := os.Open(path)
	if err != nil {
		return false, nil // replace it, whatever it is
	}
	defer old.Close()
	oldInfo, err := old.Stat()
	if err != nil {
		return false, err
	}
	newInfo, err := written.Stat()
	if err != nil {
		return false, err
	}
	if !oldInfo.Mode().IsRegular() || oldInfo.Mode().Perm() != mode || oldInfo.Size() != newInfo.Size() {
		return false, nil
	}
	if _, err := written.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(old, a)
		m, errB := io.ReadFull(written, b)
		if !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			return isEnd(errA) && isEnd(errB), nil
		}
	}
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// remove removes the file and the temporary files of an interrupted replace. A missing file is no
// error.
func remove(path string) error {
	errs := []error{removeTemporaries(path)}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, err)
	} else if err == nil {
		errs = append(errs, syncDir(filepath.Dir(path)))
	}
	return errors.Join(errs...)
}

func removeTemporaries(path string) error {
	dir, name := filepath.Split(path)
	left, err := filepath.Glob(filepath.Join(dir, temporary(name)))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range left {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
