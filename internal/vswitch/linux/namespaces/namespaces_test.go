package namespaces

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var made atomic.Int32

func newNetNS(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	name := fmt.Sprintf("lxns%d-%d", os.Getpid(), made.Add(1))
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	return name
}

// newSet returns the Set of an agent in a new namespace, and the name of that namespace.
func newSet(t *testing.T) (s *Set, own string) {
	t.Helper()
	own = newNetNS(t)
	s, err := Open(filepath.Join(models.NetNSDir, own), models.NetNSDir, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, own
}

func byName(name string) *linux_namespace.NetNamespace {
	return &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: name}
}

func byPath(name string) *linux_namespace.NetNamespace {
	return &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_FD, Reference: filepath.Join(models.NetNSDir, name)}
}

func TestNamespaceIsSharedWhileInUseAndClosedAfterwards(t *testing.T) {
	s, _ := newSet(t)
	name := newNetNS(t)
	a, err := s.Acquire(byPath(name))
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Acquire(byName(name))
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Error("two references to one namespace opened it twice")
	}
	s.Release(a)
	s.CloseIdle()
	if _, err := b.Links(); err != nil {
		t.Errorf("closed while in use: %v", err)
	}
	s.Release(b)
	await.That(t, "an idle namespace is closed", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.open) > 0 {
			return fmt.Errorf("%d are open", len(s.open))
		}
		return nil
	})
}

func TestOwnNamespaceByAnotherReference(t *testing.T) {
	s, name := newSet(t)
	ns, err := s.Acquire(byPath(name))
	if err != nil {
		t.Fatal(err)
	}
	if ns != s.Own {
		t.Error("the agent's namespace was opened twice")
	}
	s.Release(ns)
	if _, err := ns.Links(); err != nil {
		t.Error(err)
	}
}

func TestMissingNamespacesAreGone(t *testing.T) {
	s, _ := newSet(t)
	for _, ref := range []*linux_namespace.NetNamespace{
		byName("lxns-none"), byPath("lxns-none"),
		{Type: linux_namespace.NetNamespace_MICROSERVICE, Reference: "none"},
		{Type: linux_namespace.NetNamespace_FD, Reference: "/etc/hostname"},
	} {
		if _, err := s.Acquire(ref); !errors.Is(err, ErrGone) {
			t.Errorf("%v: got %v, want ErrGone", ref, err)
		}
	}
}

func TestThreadsReturnFromNamespaces(t *testing.T) {
	s, _ := newSet(t)
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	failure := errors.New("failure")
	for range 20 {
		err := s.Own.Enter(func() error {
			var there unix.Stat_t
			if err := unix.Stat("/proc/thread-self/ns/net", &there); err != nil || there.Ino != s.Own.ID.Ino {
				t.Errorf("in namespace %d, want %d (%v)", there.Ino, s.Own.ID.Ino, err)
			}
			return failure
		})
		if !errors.Is(err, failure) {
			t.Fatal(err)
		}
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if ns, err := os.Readlink("/proc/self/task/" + task.Name() + "/ns/net"); err == nil && ns != home {
			t.Errorf("thread %s is in %s, want %s", task.Name(), ns, home)
		}
	}
}

// Marks are unique: a later network namespace never gets the marks of an earlier one, even with the
// same inode.
func TestMarksAreNotGivenAgain(t *testing.T) {
	marks := map[uint32]bool{netNSGroup: true} // the host's
	for range 5 {
		own := newNetNS(t)
		s, err := Open(filepath.Join(models.NetNSDir, own), models.NetNSDir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if marks[s.mark] {
			t.Errorf("%#x is the mark of another network namespace (cookies need Linux 5.14)", s.mark)
		}
		marks[s.mark] = true
		s.Close()
		if out, err := exec.Command("ip", "netns", "del", own).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// Namespaces made by earlier versions on a host still count as ours, whatever the host's cookie.
func TestMarkOfTheHost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if own != fmt.Sprintf("net:[%d]", uint32(hostInode)) {
		t.Skipf("%s is not the network namespace of a host with Linux 6.18 or later: run the test there", own)
	}
	s, err := Open("/proc/self/ns/net", models.NetNSDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.mark != netNSGroup {
		t.Errorf("the mark is %#x, not %#x", s.mark, netNSGroup)
	}
}
