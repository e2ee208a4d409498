package vm

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/ctl/install"
)

// The environment set by make test-vm.
const (
	cacheVariable   = "CONTIV_VM_CACHE"   // directory of hack/kernels.sh
	clusterVariable = "CONTIV_E2E_CACHE"  // directory of make e2e, for the job cluster
	vppVariable     = "VPP_BIN"           // VPP binary for the job vpp; "": skip it
	kernelsVariable = "CONTIV_VM_KERNELS" // which of its kernels to run
	jobsVariable    = "CONTIV_VM_JOBS"    // regular expression of the jobs to run; default all
	testsVariable   = "CONTIV_VM_TESTS"   // regular expression of the conformance tests, as for go test -run; default all
)

var update = flag.Bool("update", false, "write the results into docs/design/kernels.md")

const page = "../../docs/design/kernels.md"

// job is a job in a virtual machine.
type job struct {
	name string
	// tests is a package whose test program the job runs; "": none.
	tests string
	// command is a shell command. $source is the work tree, $tests the test program, $cluster the
	// directory of Kubernetes, $vpp the VPP binary.
	command string
	// lacks is why the job cannot run; "" if it can.
	lacks string
	// memory of the machine, in MiB; 0: 2048.
	memory int
	// rows extracts table rows about the kernel from the output.
	rows func(t *testing.T, output string, ok bool) table
}

func jobs() []job {
	tests := cmp.Or(os.Getenv(testsVariable), ".")
	noVPP := ""
	if os.Getenv(vppVariable) == "" {
		noVPP = "needs VPP 25.10: make test-vm " + vppVariable + "=/usr/bin/vpp"
	}
	return []job{
		{name: "probe", command: "$source/bin/contivctl preflight --here", rows: probed},
		{name: "demo", command: "$source/bin/contiv-lab demo --up-limit 5m", rows: passed("`contiv-lab demo`: pods, nodes and the outside reach each other")},
		{name: "cgroups", tests: "test/e2e", command: cgroup2 + "$tests -test.v -test.run '^TestCgroup$'", rows: passed("nodes of `make e2e` on a machine with cgroups of version 2")},
		{name: "cluster", tests: "test/e2e", memory: 8192,
			command: cgroup2 + ownCNI + "cd $source/test/e2e && CONTIV_E2E_CACHE=$cluster CONTIV_E2E_SLOW=10 $tests -test.v -test.timeout 0 -test.run 'NodesBecomeReady'",
			rows:    passed("a Kubernetes cluster on a machine with cgroups of version 2")},
		{name: "conformance", tests: "internal/vswitch/kernel", command: "cd $source/internal/vswitch/kernel && $tests -test.v -test.timeout 0 -test.run 'TestConformance/" + tests + "'", rows: tested("TestConformance/")},
		{name: "linux", tests: "internal/vswitch/linux", command: "cd $source/internal/vswitch/linux && $tests -test.v -test.timeout 0", rows: passed("the Linux plugin: devices, addresses, routes and iptables rules in namespaces")},
		{name: "vpp", tests: "internal/vswitch/vpp", lacks: noVPP, memory: 4096,
			command: "modprobe vhost_net && test -c /dev/vhost-net && cd $source/internal/vswitch/vpp && VPP_BIN=$vpp $tests -test.v -test.timeout 0 -test.run 'Tap|TestConformanceOfVPP$/packets'",
			rows:    passed("VPP: pods that are attached by TAPs (`vhost_net`) reach each other and the outside")},
	}
}

// partTitles maps parts of the conformance suite to row titles, where they differ.
var partTitles = map[string]string{
	"port": "configuration", "scheduler": "configuration of a whole node", "states": "state of interfaces", "packets": "connectivity",
	"features": "other features", "links": "tunnels, bonds and VLANs", "NAT": "NAT of IPv4", "services": "Kubernetes services",
	"IPVS": "foreign IPVS rules on the node", "guards": "guards against forged addresses", "filter": "network policies",
}

const (
	// cgroup2 mounts only cgroups of version 2.
	cgroup2 = "mount -t cgroup2 cgroup2 /sys/fs/cgroup && "
	// ownCNI hides the host's results of CNI plugins: if they are deleted while the machine runs,
	// its overlay file system has a directory that accepts no files.
	ownCNI = "mkdir -p /var/lib/cni && mount -t tmpfs tmpfs /var/lib/cni && "
)

// passed is a row that shows whether the job succeeded.
func passed(row string) func(*testing.T, string, bool) table {
	return func(_ *testing.T, _ string, ok bool) table {
		return table{row: {cell: map[bool]string{true: yes, false: "fails"}[ok]}}
	}
}

func TestKernels(t *testing.T) {
	cache := os.Getenv(cacheVariable)
	if cache == "" {
		t.Skip("boots virtual machines: run make test-vm")
	}
	wanted, err := regexp.Compile(os.Getenv(jobsVariable))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, j := range jobs() {
		if j.tests != "" && j.lacks == "" && wanted.MatchString(j.name) {
			build(t, j.tests, bin)
		}
	}
	found := table{}
	for _, kernel := range strings.Fields(os.Getenv(kernelsVariable)) {
		t.Run(kernel, func(t *testing.T) {
			dir := filepath.Join(cache, kernel)
			release := releaseOf(t, dir)
			for _, j := range jobs() {
				if !wanted.MatchString(j.name) {
					continue
				}
				t.Run(j.name, func(t *testing.T) {
					if j.lacks != "" {
						t.Skip(j.lacks)
					}
					began := time.Now()
					log := filepath.Join(os.TempDir(), "contiv-vm-"+release+"-"+j.name+".log")
					output, err := run(t, dir, filepath.Join(bin, filepath.Base(j.tests)), log, j)
					t.Logf("%s on %s: %s", j.name, release, time.Since(began).Round(time.Second))
					if err == nil && j.tests != "" && !strings.Contains(output, "--- PASS: ") {
						err = errors.New("no test ran: " + testsVariable + " selects none")
					}
					if err != nil {
						t.Errorf("%v, see %s; its end:\n%s", err, log, tail(output, 40))
					} else if err := os.Remove(log); err != nil {
						t.Error(err)
					}
					for row, cells := range j.rows(t, output, err == nil) {
						found.set(row, release, cells[cell])
					}
				})
			}
		})
	}
	if *update {
		found.write(t)
	}
}

// build builds the test program of a package.
func build(t *testing.T, pkg, bin string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", filepath.Join(bin, filepath.Base(pkg)), "./"+pkg)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the tests of %s: %v: %s", pkg, err, out)
	}
}

// releaseOf returns the kernel release in a directory, without Debian's update number: 6.1, 6.12.
func releaseOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(dir + "/boot/vmlinuz-*")
	if err != nil || len(files) != 1 {
		t.Fatalf("%s has no kernel, or several: %v %v", dir, files, err)
	}
	version := regexp.MustCompile(`vmlinuz-(\d+\.\d+)`).FindStringSubmatch(files[0])
	if version == nil {
		t.Fatalf("%s names no version", files[0])
	}
	return version[1]
}

// run boots a machine that runs a job, and returns its output. The file log has it during the job,
// which may take an hour.
func run(t *testing.T, dir, tests, log string, j job) (output string, err error) {
	t.Helper()
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(source, "hack/vm.sh"), dir, "env", "tests="+tests, "source="+source, "cluster="+os.Getenv(clusterVariable), "vpp="+os.Getenv(vppVariable), "sh", "-c", j.command)
	if j.memory > 0 {
		cmd.Env = append(os.Environ(), fmt.Sprintf("VM_MEMORY=%d", j.memory))
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	err = cmd.Run()
	out, readErr := os.ReadFile(log)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n"), err // it is a terminal's
}

func tail(output string, n int) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// probed parses the result of contivctl preflight --here.
func probed(t *testing.T, output string, _ bool) table {
	t.Helper()
	text := output[max(0, strings.Index(output, "{\n  \"kernel\"")):] // after the boot messages
	var facts install.Facts
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&facts); err != nil {
		t.Errorf("output of contivctl preflight: %v: %s", err, output)
	}
	found := table{}
	for feature, reason := range facts.Features {
		row := "device or subsystem: " + feature
		found.set(row, cell, yes)
		if reason != "" {
			found.set(row, cell, "no: "+reason)
		}
	}
	return found
}

// tested parses the output of go test -v: tests below the one with the prefix are features.
func tested(prefix string) func(*testing.T, string, bool) table {
	result := regexp.MustCompile(`(?m)^ +--- (PASS|FAIL|SKIP): ` + regexp.QuoteMeta(prefix) + `(\S+)`)
	return func(_ *testing.T, output string, _ bool) table {
		found := table{}
		worse := func(row, to string) {
			if order := []string{yes, "in part", "no", "fails"}; slices.Index(order, to) > slices.Index(order, found[row][cell]) {
				found.set(row, cell, to)
			}
		}
		skips := map[string]bool{}
		for _, m := range result.FindAllStringSubmatch(output, -1) {
			name := strings.Split(strings.ReplaceAll(m[2], "_", " "), "/")
			name[0] = cmp.Or(partTitles[name[0]], name[0])
			row := strings.Join(name[:min(2, len(name))], ": ")
			switch {
			case m[1] == "FAIL":
				worse(row, "fails")
			case m[1] == "SKIP" && len(name) <= 2:
				worse(row, "no")
			case m[1] == "SKIP":
				skips[row] = true
			case len(name) <= 2:
				worse(row, yes)
			}
		}
		for row := range skips {
			worse(row, "in part")
		}
		return found
	}
}

// table is docs/design/kernels.md: each kernel's support, by row and release. Parts of a row with the
// same support are left out.
type table map[string]map[string]string

const (
	yes  = "yes"
	cell = "" // the only column of a job's result
)

func (tb table) set(row, column, text string) {
	if tb[row] == nil {
		tb[row] = map[string]string{}
	}
	tb[row][column] = text
}

const (
	beginTable = "<!-- table: make test-vm -->\n"
	endTable   = "<!-- end of table -->\n"
)

// write writes the results to the page and keeps other cells.
func (tb table) write(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(data), beginTable)
	old, after, ok2 := strings.Cut(rest, endTable)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no table", page)
	}
	all := parse(old)
	for row, cells := range tb {
		for column, text := range cells {
			all.set(row, column, text)
		}
	}
	if err := os.WriteFile(page, []byte(before+beginTable+all.String()+endTable+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func parse(text string) table {
	found := table{}
	var columns []string
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case columns == nil:
			columns = cells
		case strings.HasPrefix(cells[0], "---"):
		default:
			for i := 1; i < min(len(cells), len(columns)); i++ {
				if cells[i] != "" {
					found.set(cells[0], strings.TrimPrefix(columns[i], "Linux "), cells[i])
				}
			}
		}
	}
	return found
}

func (tb table) String() string {
	columns := map[string]bool{}
	for _, cells := range tb {
		for column := range cells {
			columns[column] = true
		}
	}
	sorted := slices.SortedFunc(maps.Keys(columns), func(a, b string) int {
		var x, y [2]int
		fmt.Sscanf(a, "%d.%d", &x[0], &x[1])
		fmt.Sscanf(b, "%d.%d", &y[0], &y[1])
		return slices.Compare(x[:], y[:])
	})
	var b strings.Builder
	b.WriteString("| |")
	for _, column := range sorted {
		fmt.Fprintf(&b, " Linux %s |", column)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(sorted)+1) + "\n")
	for _, row := range slices.Sorted(maps.Keys(tb)) {
		if part := strings.Index(row, ": "); part > 0 && maps.Equal(tb[row[:part]], tb[row]) {
			continue // the same as the whole
		}
		fmt.Fprintf(&b, "| %s |", row)
		for _, column := range sorted {
			fmt.Fprintf(&b, " %s |", tb[row][column])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestOutputOfTestsIsRead(t *testing.T) {
	got := tested("TestConformance/")(t, `
--- FAIL: TestConformance (10.00s)
    --- PASS: TestConformance/links (1.00s)
        --- PASS: TestConformance/links/VRF_devices (1.00s)
        --- SKIP: TestConformance/links/WireGuard (1.00s)
            x_test.go:1: WireGuard: operation not supported
        --- PASS: TestConformance/links/bond (1.00s)
            --- SKIP: TestConformance/links/bond/LACP (1.00s)
    --- FAIL: TestConformance/packets (1.00s)
        --- FAIL: TestConformance/packets/span (1.00s)
            --- FAIL: TestConformance/packets/span/both (1.00s)
    --- PASS: TestConformance/access_lists (1.00s)
`, false)
	want := map[string]string{
		"tunnels, bonds and VLANs": yes, "tunnels, bonds and VLANs: VRF devices": yes, "tunnels, bonds and VLANs: WireGuard": "no",
		"tunnels, bonds and VLANs: bond": "in part", "connectivity": "fails", "connectivity: span": "fails", "access lists": yes,
	}
	for row, text := range want {
		if got[row][cell] != text {
			t.Errorf("%s: %q, not %q", row, got[row][cell], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("rows: %v", got)
	}
}

func TestTableOfKernels(t *testing.T) {
	tb := table{"VRF": {"6.1": yes, "6.12": "no: because"}, "bond": {"6.12": yes}}
	text := tb.String()
	if want := "| | Linux 6.1 | Linux 6.12 |\n|---|---|---|\n| VRF | yes | no: because |\n| bond |  | yes |\n"; text != want {
		t.Errorf("it is\n%s", text)
	}
	if again := parse(text).String(); again != text {
		t.Errorf("read and written, it is\n%s", again)
	}
}
