package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// member returns a gzip member with the data.
func member(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

// header returns the tar block that starts a file.
func header(h tar.Header) []byte {
	var b bytes.Buffer
	h.Mode = 0o600
	if err := tar.NewWriter(&b).WriteHeader(&h); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// archiveOf returns a report of files.
func archiveOf(files ...[2]string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		w.WriteHeader(&tar.Header{Name: "r/" + f[0], Mode: 0o600, Size: int64(len(f[1])), Typeflag: tar.TypeReg})
		io.WriteString(w, f[1])
	}
	w.Close()
	return member(b.Bytes())
}

// A report with false sizes is refused with a reason and little memory.
func TestReportsThatClaimTooMuch(t *testing.T) {
	const gib = 1 << 30
	zeros := member(make([]byte, 64<<20))
	padding := make([]byte, 1<<20) // incompressible data raises the allowed total size
	for i, x := 0, uint32(1); i < len(padding); i++ {
		x = x*1664525 + 1013904223
		padding[i] = byte(x >> 24)
	}
	pad := [2]string{"padding", string(padding)}
	meta := func(nodes string) [2]string { return [2]string{"report.json", `{"Format":4,"Nodes":[` + nodes + `]}`} }
	node := `{"Name":"node1"}`
	var many bytes.Buffer
	for range 12 * 16 {
		many.Write(zeros)
	}
	for name, archive := range map[string][]byte{
		"a file of 12 GiB":      bytes.Join([][]byte{member(header(tar.Header{Name: "r/x", Size: 12 * gib, Typeflag: tar.TypeReg})), many.Bytes()}, nil),
		"a skipped file":        bytes.Join([][]byte{member(header(tar.Header{Name: "x", Size: 12 * gib, Typeflag: tar.TypeReg})), many.Bytes()}, nil),
		"many files":            bytes.Repeat(append(member(header(tar.Header{Name: "r/x", Size: 64 << 20, Typeflag: tar.TypeReg})), zeros...), 200),
		"many empty files":      bytes.Repeat(member(bytes.Repeat(header(tar.Header{Name: "r/x", Typeflag: tar.TypeReg}), 10_000)), 30),
		"values":                archiveOf(pad, meta(node), [2]string{"nodes/node1/answers/00-x", "[" + strings.Repeat("{},", 10<<20) + "{}]"}),
		"a compressed history":  archiveOf(pad, meta(node), [2]string{"nodes/node1/history/1.gz", string(bytes.Repeat(zeros, 16))}),
		"nodes":                 archiveOf(pad, meta(strings.Repeat(node+",", 1<<20)+node)),
		"the same node":         archiveOf(meta(node+","+node), [2]string{"nodes/node1/index.json", "[]"}),
		"an index":              archiveOf(pad, meta(node), [2]string{"nodes/node1/index.json", "[" + strings.Repeat("{},", 1<<20) + strings.Repeat(" ", 2<<20) + "{}]"}),
		"nothing of what it is": member([]byte("nothing")),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report.tgz")
			if err := os.WriteFile(file, archive, 0o600); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := Open(file)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), "is not a report") {
				t.Errorf("it was opened: %v", err)
			}
			t.Logf("%d bytes, allocated %d MiB: %v", len(archive), (after.TotalAlloc-before.TotalAlloc)>>20, err)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 300<<20 {
				t.Errorf("%d MiB were allocated for an archive of %d bytes", allocated>>20, len(archive))
			}
		})
	}
}

// Large reports of real clusters are read.
func TestLargeReportIsRead(t *testing.T) {
	var value strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&value, `{"Key":"config/vpp/v2/interfaces/tap-%d","Value":{"Address":"10.1.%d.%d/32"}},`, i, i/250, i%250)
	}
	body := "[" + value.String() + "{}]"
	files := [][2]string{{"report.json", `{"Format":4,"Nodes":[{"Name":"node1"}]}`}, {"nodes/node1/index.json", `[{"Request":"/x","Status":200,"File":"answers/x"}]`}, {"nodes/node1/answers/x", body}}
	file := filepath.Join(t.TempDir(), "report.tgz")
	if err := os.WriteFile(file, archiveOf(files...), 0o600); err != nil {
		t.Fatal(err)
	}
	_, agents, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := agents[0].Fetch(t.Context(), "/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(got); err != nil || string(text) != body {
		t.Errorf("%d of %d bytes: %v", len(text), len(body), err)
	}
}
