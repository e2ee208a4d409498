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

// DefaultLockTimeout is how long Open waits for another process to release the file.
const DefaultLockTimeout = 2 * time.Second

var (
	// ErrLocked is wrapped when another process has the file open.
	ErrLocked = errors.New("file is in use by another process")
	// ErrCorrupt is wrapped when the file is no database that we can read.
	ErrCorrupt = errors.New("file is damaged or no bolt database")
	// ErrNewer is wrapped when a newer version has written the file in a form that we
	// cannot read.
	ErrNewer = errors.New("file was written by a newer version of Contiv")
)

// format is the number of the form that files have: keys and values of the vpp-agent's and of the Kubernetes
// state's models, as their stores write them. It is raised when older versions can no longer read them. Files
// from before there were numbers have 1.
const format = 1

// The number is in a bucket of its own.
var (
	formatBucket = []byte("format")
	formatKey    = []byte("number")
)

// checkFormat returns ErrNewer for what we cannot read.
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

// Open opens the file, creating it (mode 0600) and its directory (0700) if they
// do not exist. lockTimeout bounds the wait for a lock; 0: DefaultLockTimeout.
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

// OpenOrReplace is Open, but a damaged file is moved away, to the returned path,
// and an empty one takes its place.
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

// SkipSync makes writes return before they are on the disk: what has been written
// survives the end of the process, but the file may be lost with the machine. Call
// it before the first write.
func (s *Store) SkipSync() { s.db.NoSync = true }

// open opens the database. bbolt panics on some kinds of damage and leaves the file
// mapped and locked; the lock is then released here.
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

// prepare reads everything once, so that damage shows now and not in the middle of
// something, and creates the bucket. A file that has it is not written to: it can
// be opened on a disk that is full.
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

// recoverDamage returns a function to be deferred, which turns panics into
// ErrCorrupt; also those for pages beyond the end of the file, which is mapped.
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
		return fmt.Errorf("open local store %s: %w: is another agent of this node still running?", path, ErrLocked)
	case errors.Is(err, ErrNewer):
		return fmt.Errorf("open local store %s: %w: use that version again, or move the file away and lose what is in it only", path, err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("open local store %s: %w (%w): move it away and start again", path, ErrCorrupt, err)
	}
	return fmt.Errorf("open local store %s: %w", path, err)
}
