package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"golang.org/x/sys/unix"
)

func TestLocalFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, "lf")
	t.Run("from another version", func(t *testing.T) { otherVersion(t, s) })
	t.Run("missing", func(t *testing.T) { missingFile(t, s) })
	t.Run("corrupt", func(t *testing.T) { corruptFile(t, s) })
}

func missingFile(t *testing.T, s *site) {
	f := begin(t, s, "Local file is missing", "The agent is started with etcd, without its `bolt.db`.")
	s.kill(t, "node1")
	if err := os.Remove(s.bolt("node1")); err != nil {
		t.Fatal(err)
	}
	f.heal()
	s.start(t, "node1")
	f.row.Healed, f.row.Until = time.Since(f.healing), "until ready"
	f.seesLog("node1", "restored from the copy")
	f.row.Kept = "The mirror is read from etcd again, and the node's pods from a copy in the run directory, which a reboot loses together with the pods."
	f.end()
}

func corruptFile(t *testing.T, s *site) {
	f := begin(t, s, "Local file is corrupt", "The agent is started with etcd, with garbage in its `bolt.db`.")
	s.kill(t, "node1")
	info, err := os.Stat(s.bolt("node1"))
	if err == nil {
		err = os.WriteFile(s.bolt("node1"), bytes.Repeat([]byte("garbage "), int(info.Size()/8)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.heal()
	s.start(t, "node1")
	f.row.Healed, f.row.Until = time.Since(f.healing), "until ready"
	f.seesLog("node1", "Local store damaged")
	f.seesLog("node1", "restored from the copy")
	f.row.Kept = "The damaged file is kept, and the log has its name. The rest is as before."
	f.end()
}

func otherVersion(t *testing.T, s *site) {
	f := begin(t, s, "Local file is from another version", "In `bolt.db`, fields and kinds of values are missing or unknown, and "+
		"one value cannot be decoded. The agent is started while etcd is down.")
	s.kill(t, "node1")
	if err := s.StopEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	changeFile(t, s)
	f.heal()
	s.start(t, "node1")
	f.row.Healed, f.row.Until = time.Since(f.healing), "until ready, without etcd"
	f.seesLog("node1", "Value in the database ignored")
	late := s.pod(t, "late", "node1")
	if err := s.connected(t, late); err != nil {
		t.Error(err)
	}
	if err := s.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.row.Kept = "The network is as before, and pods are added. Wrong values are replaced when etcd is back."
	await.That(t, "etcd is followed", func() error { return s.settled(t, "node1") })
	f.end()
}

// changeFile converts the local file of node1 to another version.
func changeFile(t *testing.T, s *site) {
	t.Helper()
	b, err := bolt.Open(s.bolt("node1"), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := t.Context()
	put := func(key, value string) {
		t.Helper()
		if err := b.Put(ctx, key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	put(models.KSRPrefix+"k8s/unheard-of/x", `{"name": "x"}`)
	put(models.KSRPrefix+"k8s/pod/odd/namespace/default", `{"name": 17`)
	put(models.NodePrefix("node1")+"config/vpp/unheard-of/v9/x", `{"name": "x"}`)
	put("/local/unheard-of/x", `{"name": "x"}`)
	for _, prefix := range []string{models.KSRPrefix + "k8s/", podmanager.StorePrefix} {
		kvs, _, err := b.List(ctx, prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range kvs {
			var value map[string]any
			if json.Unmarshal(kv.Value, &value) != nil || strings.Contains(kv.Key, "unheard-of") {
				continue
			}
			value["unheardOf"] = map[string]any{"of": []int{1, 2}}
			for _, field := range []string{"labels", "annotations", "container", "node_info", "phase", "uid", "node_name", "ip_addresses"} {
				delete(value, field)
			}
			data, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			put(kv.Key, string(data))
		}
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, "dk")
	disk := newDisk(t)
	gone := s.pod(t, "gone", "node1")
	s.kill(t, "node1")
	for _, path := range []string{s.bolt("node1"), s.Path("logs", "agent-node1.log")} {
		moved := filepath.Join(disk, filepath.Base(path))
		data, err := os.ReadFile(path)
		if err == nil {
			err = errors.Join(os.WriteFile(moved, data, 0o600), os.Remove(path), os.Symlink(moved, path))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f := begin(t, s, "Disk is full", "The disk with `bolt.db` and the agent's log is full. Pods are added and removed, and the agent is killed and started.")
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	fillBolt(t, s.bolt("node1"))
	s.start(t, "node1")

	refused := false
	for i := 0; i < 100 && !refused; i++ { // a page may have free space
		p, err := s.AddPod(t.Context(), lab.PodSpec{Name: fmt.Sprintf("full%d", i), Node: "node1"})
		if err == nil {
			t.Cleanup(func() { s.DelPod(context.Background(), p.ID()) })
			continue
		}
		if !strings.Contains(err.Error(), "no space left on device") {
			t.Fatalf("the error does not name the disk: %v", err)
		}
		f.sees("CNI ADD", err.Error())
		refused = true
	}
	if !refused {
		t.Fatal("pods are wired although nothing can be remembered of them")
	}
	if err := s.DelPod(t.Context(), gone.ID()); err != nil {
		t.Errorf("a pod cannot be removed: %v", err)
	}
	f.flow(50)
	s.kill(t, "node1")
	s.start(t, "node1")
	f.flow(50)
	if err := s.connected(t); err != nil {
		t.Error(err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	f.heal()
	late := s.pod(t, "late", "node1")
	f.row.Healed, f.row.Until = time.Since(f.healing), "until a pod was added, after space was freed"
	if err := s.connected(t, late); err != nil {
		t.Error(err)
	}
	f.row.Kept = "ADD fails and leaves nothing behind, because the agent would forget the pod. DEL succeeds. The agent starts with all pods."
	f.end()
}

// newDisk returns the path of an unmounted file system of 1 MB, which ends with this process.
func newDisk(t *testing.T) string {
	t.Helper()
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Skipf("this kernel cannot make a file system without mounting it: %v", err)
	}
	defer unix.Close(fs)
	err = errors.Join(unix.FsconfigSetString(fs, "size", "1M"), unix.FsconfigCreate(fs))
	if err != nil {
		t.Fatal(err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(mount) })
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), mount)
}

// fillBolt uses up the free pages of a bolt file on a full disk.
func fillBolt(t *testing.T, path string) {
	t.Helper()
	b, err := bolt.Open(path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, size := range []int{16000, 4000, 1000, 100} {
		for i := 0; ; i++ {
			err := b.Put(t.Context(), fmt.Sprintf("/ballast/%d/%d", size, i), make([]byte, size))
			if errors.Is(err, unix.ENOSPC) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for {
		if _, err := file.Write(make([]byte, 4096)); errors.Is(err, unix.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
