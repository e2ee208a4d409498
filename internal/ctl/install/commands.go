package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/lib/terminal"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// options holds the flags shared by several commands.
type options struct {
	kubeconfig, context  string
	manifests, apiServer string
	config, values       []string
	timeout              time.Duration
	Manifests
}

func (o *options) register(c *cobra.Command, timeout time.Duration) {
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file (default: environment KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig file (default: its current context)")
	f.StringVar(&o.Image, "image", "", "image of Contiv (default "+DefaultImage+"; for upgrade: the cluster's current image)")
	f.StringVar(&o.manifests, "manifests", "", "directory with manifests (default: the built-in chart)")
	f.StringVar(&o.PostRenderer, "post-renderer", "", "program that reads all objects as YAML on standard input and prints the objects to apply")
	f.DurationVar(&o.timeout, "timeout", timeout, "maximum time to wait")
}

func (o *options) registerConfig(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&o.config, "conf", nil, "configuration file named contiv.conf, controller.conf, service.conf, etcd.conf or vpp.conf; repeatable")
	f.StringArrayVar(&o.values, "values", nil, "file with values for the Helm chart, such as etcd.snapshots; repeatable")
	f.StringVar(&o.apiServer, "api-server", "", "address of the API server for a cluster without kube-proxy, such as https://192.168.16.254:6443")
	f.BoolVar(&o.VPP, "vpp", false, "also install the objects for nodes with the label contivpp.io/vswitch=vpp")
	f.StringVar(&o.VPPImage, "vpp-image", "", "image with VPP (default "+DefaultVPPImage+"; for upgrade: the cluster's current image)")
	f.BoolVar(&o.WithoutEtcd, "without-etcd", false, "do not install etcd; set your own etcd in a file etcd.conf with --conf")
}

// imageName matches the names that container runtimes accept.
var imageName = regexp.MustCompile(`^((\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:\w[\w.-]*)?(@sha256:[0-9a-f]{64})?$`)

func checkImage(flag, name string) error {
	if name != "" && !imageName.MatchString(name) {
		return fmt.Errorf("%s: %q is not an image name such as registry.example.com/contiv:v1", flag, name)
	}
	return nil
}

// read reads the files named by flags.
func (o *options) read() error {
	if o.manifests != "" {
		o.Files = os.DirFS(o.manifests)
		if names, err := fs.Glob(o.Files, "*.yaml"); err != nil || len(names) == 0 {
			return fmt.Errorf("--manifests: %s has no *.yaml", o.manifests)
		}
	}
	if err := o.readValues(); err != nil {
		return fmt.Errorf("--values: %w", err)
	}
	if err := errors.Join(checkImage("--image", o.Image), checkImage("--vpp-image", o.VPPImage)); err != nil {
		return text.Mistake(err)
	}
	o.Config = map[string]string{}
	for _, file := range o.config {
		name := filepath.Base(file)
		if name == apiServerKey {
			return text.Mistake(errors.New("--conf: use the flag --api-server instead of a file " + apiServerKey))
		}
		if loaders[name] == nil {
			return text.Mistake(fmt.Errorf("--conf: %w", unknownFile(name)))
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--conf: %w", err)
		}
		if err := CheckConfig(name, string(content)); err != nil {
			return fmt.Errorf("--conf: %w", err)
		}
		o.Config[name] = string(content)
	}
	if o.apiServer != "" {
		if err := CheckConfig(apiServerKey, o.apiServer); err != nil {
			return fmt.Errorf("--%w", err)
		}
		o.Config[apiServerKey] = o.apiServer
	}
	if o.WithoutEtcd && o.Config["etcd.conf"] == "" {
		return text.Mistake(errors.New("--without-etcd: set your own etcd in a file etcd.conf with --conf"))
	}
	return nil
}

func (o *options) readValues() error {
	if len(o.values) > 0 && o.Files != nil {
		return errors.New("values apply to the built-in chart, which --manifests replaces: drop one of the flags")
	}
	for _, file := range o.values {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		values, err := parseValues(text)
		if err == nil {
			err = checkValues(values)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		o.Values = overlay(o.Values, values)
	}
	if vpp, _ := o.Values["vpp"].(map[string]any); vpp["enabled"] == true {
		o.VPP = true
	}
	return nil
}

// run calls do with the cluster, limited by the flag --timeout.
func (o *options) run(c *cobra.Command, progress io.Writer, do func(context.Context, *Cluster) error) error {
	if err := o.read(); err != nil {
		return err
	}
	cluster, err := Connect(o.kubeconfig, o.context, o.PostRenderer, progress)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(c.Context(), o.timeout, fmt.Errorf("timed out after %s (--timeout)", o.timeout))
	defer cancel()
	return do(ctx, cluster)
}

// Commands returns install, upgrade, uninstall and preflight, which write to out, and their progress to progress.
func Commands(out, progress io.Writer) []*cobra.Command {
	return []*cobra.Command{installCommand(out, progress), upgradeCommand(out, progress), uninstallCommand(out, progress), preflightCommand(out, progress)}
}

const patience = 5 * time.Minute

func installCommand(out, progress io.Writer) *cobra.Command {
	var o options
	var dryRun, noPreflight bool
	c := &cobra.Command{
		Use:   "install",
		Short: "Install Contiv on a cluster",
		Long: "Install Contiv on a cluster: check the requirements as \"preflight\" does, apply the manifests of this\n" +
			"version, and wait until all pods of Contiv and all nodes are ready. If they do not become ready, report\n" +
			"why.",
		Example: "  contivctl install\n" +
			"  contivctl install --image registry.example.com/contiv:v1 --conf contiv.conf",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dryRun {
				if err := o.read(); err != nil {
					return err
				}
				return printObjects(c.Context(), out, &o.Manifests, every)
			}
			return o.run(c, progress, func(ctx context.Context, cluster *Cluster) error {
				if !noPreflight {
					found, err := cluster.Preflight(ctx, o.Manifests)
					if err != nil {
						return fmt.Errorf("preflight: %w", err)
					}
					if printFindings(out, found, Warning) {
						return errors.New("preflight found the errors above: fix them, or use --no-preflight")
					}
				}
				return cluster.Install(ctx, o.Manifests)
			})
		},
	}
	o.register(c, patience)
	o.registerConfig(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the objects instead of applying them")
	c.Flags().BoolVar(&noPreflight, "no-preflight", false, "do not check the requirements first")
	return c
}

func upgradeCommand(out, progress io.Writer) *cobra.Command {
	var o options
	var dryRun bool
	c := &cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade Contiv on a cluster, or change its configuration",
		Long: "Upgrade Contiv on a cluster to the version of contivctl, or change its configuration, and wait until all\n" +
			"pods of Contiv and all nodes are ready. The way in which Contiv was installed does not matter.\n\n" +
			"Images, configuration and values are kept unless a flag sets them. Manual changes of the objects are\n" +
			"overwritten. Pods keep their network, but pods on nodes with VPP lose it while VPP restarts.",
		Example: "  contivctl upgrade --image registry.example.com/contiv:v2 --dry-run\n" +
			"  contivctl upgrade --conf contiv.conf",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, progress, func(ctx context.Context, cluster *Cluster) error {
				if dryRun {
					return cluster.PrintUpgrade(ctx, out, o.Manifests)
				}
				return cluster.Upgrade(ctx, o.Manifests)
			})
		},
	}
	o.register(c, patience)
	o.registerConfig(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the objects, with the settings kept from the cluster, instead of applying them")
	return c
}

func uninstallCommand(out, progress io.Writer) *cobra.Command {
	var o options
	var keepState, yes, dryRun bool
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Contiv from a cluster and its nodes",
		Long: "Remove Contiv from a cluster: stop it, remove its CNI plugin, network configuration and files from each\n" +
			"node, then delete its objects. Running pods lose their network, and nodes become not ready. At a\n" +
			"terminal, contivctl lists the changes and asks for confirmation first.",
		Example: "  contivctl uninstall --dry-run\n" +
			"  contivctl uninstall --yes",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ask := !yes && !dryRun
			if ask && !terminal.Is(c.InOrStdin()) {
				return errors.New("running pods lose their network (--dry-run lists them): confirm with --yes")
			}
			if dryRun || ask {
				err := o.run(c, progress, func(ctx context.Context, cluster *Cluster) error {
					return cluster.PrintRemoval(ctx, out, o.Manifests, keepState)
				})
				if err != nil || dryRun {
					return err
				}
				if !terminal.Confirmed(c.InOrStdin(), out, "Remove Contiv?") {
					return errors.New("nothing was removed")
				}
			}
			return o.run(c, progress, func(ctx context.Context, cluster *Cluster) error {
				return cluster.Uninstall(ctx, o.Manifests, keepState)
			})
		},
	}
	o.register(c, patience)
	c.Flags().BoolVar(&keepState, "keep-state", false, "keep the data of etcd and of the agents on the nodes for the next installation")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the objects to remove and the pods that would lose their network, without removing anything")
	c.MarkFlagsMutuallyExclusive("yes", "dry-run")
	return c
}

func preflightCommand(out, progress io.Writer) *cobra.Command {
	var o options
	var here bool
	var hostRoot string
	format := findingsFormat("table")
	c := &cobra.Command{
		Use:   "preflight",
		Short: "Check that a cluster meets the requirements",
		Long: "Check whether Contiv would work on a cluster. A short-lived pod on each node checks features of the\n" +
			"kernel in a network namespace of its own, network interfaces and their MTU, routes that overlap with\n" +
			"Contiv's networks, other network plugins, kube-proxy, the clock, and the requirements of VPP. Nothing\n" +
			"is changed.\n\n" +
			"The exit code is 1 if a requirement is not met.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkHere(c.Flags(), here); err != nil {
				return err
			}
			if here {
				facts, err := Look(c.Context(), hostRoot)
				if err != nil {
					return err
				}
				return printJSON(out, facts)
			}
			return o.run(c, progress, func(ctx context.Context, cluster *Cluster) error {
				found, err := cluster.Preflight(ctx, o.Manifests)
				if err != nil {
					return err
				}
				failed := false
				if format == "table" {
					failed = printFindings(out, found, OK)
				} else if err := printJSON(out, found); err != nil {
					return err
				}
				if failed {
					return errors.New("the cluster does not meet the requirements: see the errors above")
				}
				return nil
			})
		},
	}
	o.register(c, 2*time.Minute)
	o.registerConfig(c)
	c.Flags().VarP(&format, "output", "o", "output format, table or json")
	c.Flags().BoolVar(&here, "here", false, "print the findings about this machine as JSON, without a cluster")
	c.Flags().StringVar(&hostRoot, "host-root", "", "mount point of the machine's root file system, for --here in a container (default \"/\")")
	return c
}

// checkHere refuses flags about a cluster with --here, and the reverse.
func checkHere(flags *pflag.FlagSet, here bool) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		switch isHere := f.Name == "here" || f.Name == "host-root"; {
		case here && !isHere && f.Name != "output":
			err = text.Mistake(fmt.Errorf("--here does not access the cluster: drop --%s", f.Name))
		case !here && f.Name == "host-root":
			err = text.Mistake(errors.New("--host-root requires --here: add --here, or drop --host-root"))
		}
	})
	return err
}

// findingsFormat is the output format of preflight.
type findingsFormat string

// Set implements pflag.Value.
func (f *findingsFormat) Set(s string) error {
	if s != "table" && s != "json" {
		return errors.New("use table or json")
	}
	*f = findingsFormat(s)
	return nil
}

func (f *findingsFormat) String() string { return string(*f) }

// Type implements pflag.Value; --help shows it.
func (f *findingsFormat) Type() string { return "FORMAT" }

func printJSON(out io.Writer, v any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

func printObjects(ctx context.Context, out io.Writer, m *Manifests, checked func(file string) bool) error {
	objects, err := m.objects(ctx)
	if err == nil {
		err = checkConfiguration(objects, checked)
	}
	if err != nil {
		return err
	}
	for _, o := range objects {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "---\n%s", data)
	}
	return nil
}

// printFindings prints the findings of a level and worse, and reports whether any is an error.
func printFindings(out io.Writer, found []Finding, least string) (failed bool) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	for _, f := range found {
		failed = failed || f.Level == Error
		if f.Level == OK && least != OK {
			continue
		}
		text := f.What
		if f.Do != "" {
			text += ": " + f.Do
		}
		node := f.Node
		if node == "" {
			node = "cluster"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", strings.ToUpper(f.Level), node, text)
	}
	return failed
}
