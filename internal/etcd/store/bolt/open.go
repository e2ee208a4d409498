package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// DefaultLockTimeout is how long Open waits for another process to close the file.
const DefaultLockTimeout = 2 * time.Second

var (
	// ErrLocked is wrapped if another process has the file open.
	ErrLocked = errors.New("file is in use by another process")
	// ErrCorrupt is wrapped if the file is not a readable bbolt database.
	ErrCorrupt = errors.New("file is damaged or no bolt database")
	// ErrNewer is wrapped if the file has the format of a newer version.
	ErrNewer = errors.New("file was written by a newer version of Contiv")
)

// format is the number of the file format: keys and values of the models of the vpp-agent and of
// the Kubernetes state. Raise it if older versions can no longer read the file. Files without a
// number have 1.
const format = 1

// The number has its own bucket.
var (
	formatBucket = []byte("format")
	formatKey    = []byte("number")
)

// checkFormat returns ErrNewer if the format is newer.
func checkFormat(tx *bbolt.Tx) error {
	b := tx.Bucket(formatBucket)
	if b == nil {
		return nil
	}
	text := string(b.Get(formatKey))
	if number, err := strconv.Atoi(text); err != nil || number > format {
		return fmt.Errorf("%w (its format is %q, this version knows %d)", ErrNewer, text, format)
	}
	return nil
}

// Open opens the file. It creates the file (mode 0600) and its directory (0700) if missing.
// lockTimeout limits the wait for the lock; 0: DefaultLockTimeout. Errors wrap ErrLocked,
// ErrCorrupt or ErrNewer.
func Open(path string, lockTimeout time.Duration) (*Store, error) {
	if lockTimeout == 0 {
		lockTimeout = DefaultLockTimeout
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("create directory of local store: %w", err)
	}
	db, err := open(path, lockTimeout)
	if err == nil {
		if err = prepare(db); err != nil {
			db.Close()
		}
	}
	if err != nil {
		return nil, openError(path, err)
	}
	return &Store{db: db, path: path}, nil
}

// OpenOrReplace is Open, but renames a damaged file to moved and creates an empty one.
func OpenOrReplace(path string, lockTimeout time.Duration) (s *Store, moved string, err error) {
	s, err = Open(path, lockTimeout)
	if !errors.Is(err, ErrCorrupt) {
		return s, "", err
	}
	moved = path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000000")
	if renameErr := os.Rename(path, moved); renameErr != nil {
		return nil, "", errors.Join(err, renameErr)
	}
	s, err = Open(path, lockTimeout)
	return s, moved, err
}

// SkipSync makes writes return before they are on disk. They survive the end of the process, but a
// crash of the machine may destroy the file. Call it before the first write.
func (s *Store) SkipSync() { s.db.NoSync = true }

// open opens the database. bbolt panics on some kinds of damage and leaves the file mapped and
// locked; open then releases the lock.
func open(path string, lockTimeout time.Duration) (db *bbolt.DB, err error) {
	var file *os.File
	defer func() {
		if errors.Is(err, ErrCorrupt) && file != nil {
			_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
			file.Close()
		}
	}()
	defer recoverDamage(&err)()
	return bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:      lockTimeout,
		FreelistType: bbolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			var err error
			file, err = os.OpenFile(name, flag, mode)
			return file, err
		},
	})
}

// prepare reads everything, to find damage early, and creates the bucket. If the bucket exists,
// prepare does not write, so that the file can be opened on a full disk.
func prepare(db *bbolt.DB) (err error) {
	defer recoverDamage(&err)()
	exists := false
	err = db.View(func(tx *bbolt.Tx) error {
		if err := checkFormat(tx); err != nil {
			return err
		}
		b := tx.Bucket(bucket)
		if exists = b != nil; !exists {
			return nil
		}
		return b.ForEach(func(_, _ []byte) error { return nil })
	})
	if err != nil || exists {
		return err
	}
	return db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(formatBucket)
		if err == nil {
			err = b.Put(formatKey, []byte(strconv.Itoa(format)))
		}
		if err == nil {
			_, err = tx.CreateBucketIfNotExists(bucket)
		}
		return err
	})
}

// recoverDamage returns a function to be deferred, which turns panics into ErrCorrupt, including
// faults beyond the end of the mapped file.
func recoverDamage(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			*err = fmt.Errorf("%w: %v", ErrCorrupt, r)
		}
	}
}

func openError(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("open local store %s: %w: stop the other agent of this node", path, ErrLocked)
	case errors.Is(err, ErrNewer):
		return fmt.Errorf("open local store %s: %w: use that version again, or move the file away and lose its local data", path, err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("open local store %s: %w (%w): move it away and start again", path, ErrCorrupt, err)
	}
	return fmt.Errorf("open local store %s: %w", path, err)
}
