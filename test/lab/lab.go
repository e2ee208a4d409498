package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Root is the default directory of all labs.
const Root = "/run/contiv-lab"

// DefaultName is the default name of a lab.
const DefaultName = "contiv"

// Command returns a contiv-lab command line for hints.
func Command(name, words string) string {
	if name == DefaultName {
		return "contiv-lab " + words
	}
	return "contiv-lab --name " + name + " " + words
}

// Options configure a lab. Only BinDir is required.
type Options struct {
	// Name has up to 12 lower-case letters and digits. Default "contiv".
	Name string
	// Nodes is the number of nodes that Up makes, node1 to node<Nodes>. Default 2.
	Nodes int
	// BinDir contains contiv-etcd, contiv-ksr, contiv-agent, contiv-cni and contivctl. A lab with
	// Calico needs contiv-calico-routes instead of contiv-ksr, contiv-agent and contiv-cni.
	BinDir string
	// Root is the directory of all labs. Default "/run/contiv-lab".
	Root string
	// Bare labs have only networks and run no etcd, KSR or agents.
	Bare bool
	// Calico labs represent a Calico cluster without BGP, with contiv-calico-routes on each node.
	Calico bool
	// PlainText disables TLS in etcd, so that any pod can rewrite the network of the lab. Otherwise
	// each node has a certificate and, in labs with KSR, its own role, as in a cluster.
	PlainText bool
	// VSwitches assigns "kernel" or "vpp" to the nodes in turn. Default "kernel".
	VSwitches []string
	// SingleNIC makes nodes with VPP share their only NIC with it through contiv-stn.
	SingleNIC bool
	// VPPBin is the path of VPP. Default $VPP_BIN.
	VPPBin string
	// DualStack adds IPv6 addresses to nodes, pods and services. It excludes ContivConfig.
	DualStack bool
	// IPv6 makes an IPv6-only lab and overrides DualStack. It excludes ContivConfig.
	IPv6 bool
	// ContivConfig is YAML that is appended to the contiv.conf of each node.
	ContivConfig string
	// ServiceConfig is the service.conf of each node in YAML. Default: the vswitch implements
	// services.
	ServiceConfig string
	// AgentFlags are additional flags of all agents.
	AgentFlags []string
	// StartTimeout bounds the time until a process is ready. Default 30 s.
	StartTimeout time.Duration
	// Progress receives one line per step; optional.
	Progress func(line string)
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Nodes == 0 {
		o.Nodes = 2
	}
	if o.Root == "" {
		o.Root = Root
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 30 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

var (
	labName  = regexp.MustCompile(`^[a-z][a-z0-9]{0,11}$`)
	nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
)

func (o Options) check() error {
	if !labName.MatchString(o.Name) {
		return nameError("%q cannot be the name of a lab: up to 12 lower-case letters and digits, a letter first", o.Name)
	}
	if o.Nodes < 1 || o.Nodes > maxNodes {
		return fmt.Errorf("a lab has 1 to %d nodes, not %d", maxNodes, o.Nodes)
	}
	return nil
}

// Check returns the errors in the options of a new lab.
func (o Options) Check() error {
	_, err := o.complete()
	return err
}

func (o Options) complete() (Options, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return o, err
	}
	return o, errors.Join(o.checkVSwitches(), o.checkCalico(), o.checkFamilies())
}

// Lab is an existing lab. Its methods are safe for concurrent use, also by several programs;
// methods that change the lab wait for each other.
type Lab struct {
	opts Options
	dir  string
	// changing is held together with the file lock during changes.
	changing sync.Mutex
}

func newLab(opts Options) *Lab {
	return &Lab{opts: opts, dir: filepath.Join(opts.Root, opts.Name)}
}

// Name returns the name of the lab.
func (l *Lab) Name() string { return l.opts.Name }

// Dir returns the directory of the lab.
func (l *Lab) Dir() string { return l.dir }

// Path returns a path in the directory of the lab.
func (l *Lab) Path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// State reads the current state of the lab.
func (l *Lab) State() (*State, error) { return readState(l.dir) }

// Open returns an existing lab. It uses only Name, Root, StartTimeout and Progress of the options.
func Open(opts Options) (*Lab, error) {
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	l := newLab(opts)
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	l.opts.BinDir = st.BinDir
	return l, nil
}

// List returns the sorted names of the labs below root. An empty root means Root.
func List(root string) ([]string, error) {
	if root == "" {
		root = Root
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if err == nil {
			_, err = os.Stat(filepath.Join(root, e.Name(), stateFile))
		}
		if err == nil {
			names = append(names, e.Name())
		} else if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) { // not a lab
			err = nil
		}
	}
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("listing labs: %w: they belong to another user: run the command as root", err)
	case err != nil:
		return nil, fmt.Errorf("listing labs: %w", err)
	}
	return names, nil
}

// Up makes a lab and returns when all nodes are ready. It first removes an unfinished lab of the
// same name and fails if that lab runs. If Up fails or ctx ends, it removes everything that it
// made.
func Up(ctx context.Context, opts Options) (*Lab, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	if err := requirePrograms(opts); err != nil {
		return nil, err
	}
	l := newLab(opts)
	if err := os.MkdirAll(opts.Root, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of labs: %w", err)
	}
	err = l.locked(ctx, func(lock *fileLock) error {
		if err := l.removeCrashed(); err != nil {
			return err
		}
		if err := l.make(ctx); err != nil {
			st, _ := l.State()
			if down := l.remove(st); down != nil {
				return fmt.Errorf("%w\nand removing the unfinished lab failed: %w", err, down)
			}
			lock.remove()
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Lab) removeCrashed() error {
	st, err := l.State()
	switch {
	case errors.Is(err, ErrNoLab):
		return os.RemoveAll(l.dir)
	case err != nil:
		return fmt.Errorf("%w; if no such lab runs, remove %s", err, l.dir)
	}
	if st.Phase == Running && st.BootID == bootID() {
		for _, p := range st.Processes {
			if p.Alive() {
				return fmt.Errorf("lab %s is already up: stop it with %s, or use --name for another lab", st.Name, Command(st.Name, "down"))
			}
		}
	}
	l.progress("removing the remains of crashed lab %s", st.Name)
	return l.remove(st)
}

func (l *Lab) make(ctx context.Context) error {
	for _, dir := range []string{l.dir, l.Path("logs"), l.Path("manifests"), l.Path("nodes")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	st := &State{
		Name: l.opts.Name, Phase: Starting, Created: time.Now(), BootID: bootID(),
		BinDir: l.opts.BinDir, Bare: l.opts.Bare, Calico: l.opts.Calico, DualStack: l.opts.DualStack || l.opts.Calico && hasIPv6(), IPv6: l.opts.IPv6, TLS: !l.opts.Bare && !l.opts.PlainText, VSwitches: l.opts.VSwitches, SingleNIC: l.opts.SingleNIC, VPPBin: l.opts.VPPBin, AgentFlags: l.opts.AgentFlags,
		ContivConfig: l.opts.contivConfig(), ServiceConfig: l.opts.ServiceConfig, Processes: map[string]Process{},
	}
	l.progress("lab %s: network of the nodes, router and outside host", st.Name)
	if err := l.makeUnderlay(st); err != nil {
		return err
	}
	if err := l.writeManifest(namespaceManifest(DefaultNamespace)); err != nil {
		return err
	}
	if st.TLS {
		if err := l.makeAuthority(st); err != nil {
			return fmt.Errorf("certificates of the lab: %w", err)
		}
	}
	if !l.opts.Bare {
		if err := l.startEtcd(ctx, st); err != nil {
			return err
		}
	}
	if !l.opts.Bare && !l.opts.Calico {
		if err := l.startKSR(ctx, st); err != nil {
			return err
		}
	}
	for i := 1; i <= l.opts.Nodes; i++ {
		node, err := reserveNode(st, fmt.Sprintf("node%d", i))
		if err != nil {
			return err
		}
		if err := l.makeNode(ctx, st, node); err != nil {
			return err
		}
	}
	if !l.opts.Bare {
		if err := l.startAgents(ctx, st); err != nil {
			return err
		}
		if err := l.awaitCalicoRoutes(ctx, st); err != nil {
			return err
		}
	}
	st.Phase = Running
	l.progress("lab %s is up", st.Name)
	return st.write(l.dir)
}

// startAgents starts the agents one by one, so that node IDs are in the order of node names.
func (l *Lab) startAgents(ctx context.Context, st *State) error {
	for _, n := range st.Nodes {
		if err := l.awaitNodeUser(ctx, st, n); err != nil {
			return err
		}
		if err := l.startSTN(ctx, st, n); err != nil {
			return err
		}
		if err := l.startAgent(st, n); err != nil {
			return err
		}
		if err := l.awaitNewAgent(ctx, st, n); err != nil {
			return err
		}
	}
	return nil
}

// Down removes the lab. It continues after errors, may be repeated, and returns nil if the lab does
// not exist.
func Down(ctx context.Context, opts Options) error {
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return err
	}
	return newLab(opts).Down(ctx)
}

// Down removes the lab: see the function Down.
func (l *Lab) Down(ctx context.Context) error {
	if _, err := os.Stat(l.opts.Root); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return l.locked(ctx, func(lock *fileLock) error {
		st, err := l.State()
		if errors.Is(err, ErrNoLab) {
			st, err = nil, nil
		}
		if err != nil {
			return err
		}
		if err := l.remove(st); err != nil {
			return fmt.Errorf("lab %s is not removed completely, repeat %s: %w", l.opts.Name, Command(l.opts.Name, "down"), err)
		}
		os.Remove(l.guardLog())
		lock.remove()
		os.Remove(l.opts.Root)
		return nil
	})
}

func (l *Lab) remove(st *State) error {
	if st == nil {
		return os.RemoveAll(l.dir)
	}
	st.Phase = Stopping
	if err := st.write(l.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l.progress("ending the processes")
	var errs []error
	if st.BootID == bootID() {
		errs = append(errs, stopAll(slices.Collect(maps.Values(st.Processes))))
	}
	// Also kill processes of users, such as a shell. The second pass catches children started
	// meanwhile.
	for range 2 {
		errs = append(errs, stopAll(netnsProcesses(st.Namespaces)))
	}
	l.progress("removing the network namespaces")
	for _, name := range st.Namespaces {
		errs = append(errs, deleteNetns(name))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.removeVPPLeftovers(st.Nodes...)
	return os.RemoveAll(l.dir)
}

func stopAll(processes []Process) error {
	errs := make([]error, len(processes))
	var ending sync.WaitGroup
	for i, p := range processes {
		ending.Go(func() { errs[i] = p.stop(3 * time.Second) })
	}
	ending.Wait()
	return errors.Join(errs...)
}

func (l *Lab) locked(ctx context.Context, fn func(*fileLock) error) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	lock, err := acquire(ctx, l.dir+".lock", func(pid string) {
		l.progress("waiting for another command on lab %s, process %s", l.opts.Name, pid)
	})
	if err != nil {
		return err
	}
	defer lock.release()
	return fn(lock)
}

// change runs fn on the state while holding the lock. It then updates the endpoints of services and
// stores the state, even if fn fails halfway.
func (l *Lab) change(ctx context.Context, fn func(*State) error) error {
	return l.locked(ctx, func(lock *fileLock) error {
		st, err := l.State()
		if err != nil {
			lock.remove()
			return err
		}
		if st.Phase != Running {
			return fmt.Errorf("lab %s is not up, but %s: create it again with %s", st.Name, st.Phase, Command(st.Name, "up"))
		}
		return errors.Join(fn(st), l.writeEndpoints(), st.write(l.dir))
	})
}

func (l *Lab) progress(format string, args ...any) {
	l.opts.Progress(fmt.Sprintf(format, args...))
}

// Program returns the path of a binary in BinDir.
func (l *Lab) Program(name string) string { return filepath.Join(l.opts.BinDir, name) }

var programs = []string{"contiv-etcd", "contiv-ksr", "contiv-agent", "contiv-cni", "contivctl"}

func requirePrograms(opts Options) error {
	dir, needed := opts.BinDir, programs
	if opts.Calico {
		needed = calicoPrograms
	}
	if slices.Contains(opts.VSwitches, VPPVSwitch) {
		needed = append(slices.Clone(programs), "contiv-init", "contiv-stn")
	}
	var missing []string
	for _, name := range needed {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode()&0o111 == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("directory %q lacks the programs %s: build them with make build, or set --bin-dir", dir, strings.Join(missing, ", "))
	}
	if os.Geteuid() != 0 {
		return errors.New("a lab makes network namespaces and must be run as root")
	}
	return nil
}

func (l *Lab) addNetns(st *State, name string) error {
	if err := checkUnused(name); err != nil {
		return err
	}
	st.Namespaces = append(st.Namespaces, name)
	if err := st.write(l.dir); err != nil {
		return err
	}
	return run("ip", "netns", "add", name)
}
