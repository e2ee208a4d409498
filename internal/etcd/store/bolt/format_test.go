package bolt

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// A file of a newer version stays unchanged, and the error states a remedy.
func TestFilesOfANewerVersion(t *testing.T) {
	for number, readable := range map[string]bool{"": true, "1": true, "2": false, "x": false} {
		path := filepath.Join(t.TempDir(), "f.db")
		s, err := Open(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), "/k", []byte("v")); err != nil {
			t.Fatal(err)
		}
		err = s.db.Update(func(tx *bbolt.Tx) error {
			if number == "" { // from before formats had numbers
				return tx.DeleteBucket(formatBucket)
			}
			return tx.Bucket(formatBucket).Put(formatKey, []byte(number))
		})
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		s, moved, err := OpenOrReplace(path, 0)
		switch {
		case moved != "":
			t.Errorf("format %q: moved away", number)
		case readable && err != nil:
			t.Errorf("format %q: %v", number, err)
		case !readable && (!errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "use that version again")):
			t.Errorf("format %q: %v", number, err)
		}
		if err == nil {
			if kv, found, err := s.Get(t.Context(), "/k"); err != nil || !found || string(kv.Value) != "v" {
				t.Errorf("format %q: %q, %v", number, kv.Value, err)
			}
			s.Close()
		}
	}
}
