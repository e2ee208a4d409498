package manifests

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/ctl/install"
	corev1 "k8s.io/api/core/v1"
)

// hostPaths lists the node's directories that our pods mount. A compromised container can read them
// and, unless they are read-only, write to them.
var hostPaths = map[string][]string{
	"StatefulSet contiv-etcd": {"/var/etcd"},
	"DaemonSet contiv-ksr":    nil,
	"DaemonSet contiv-agent":  {"/etc/cni/net.d", "/opt/cni/bin", "/var/bolt", "/var/run/contiv", "/var/run/netns"},
	"DaemonSet contiv-vpp":    {"/dev", "/etc/cni/net.d", "/opt/cni/bin", "/run/vpp", "/var/bolt", "/var/run/contiv", "/var/run/netns"},
}

func TestHostPathsAreThoseThatAreNeeded(t *testing.T) {
	for name, o := range Objects(t) {
		template, ok := Pod(o)
		if !ok {
			continue
		}
		want, known := hostPaths[name]
		if !known {
			t.Errorf("%s is not in the list of this test", name)
		}
		var got []string
		for _, v := range template.Spec.Volumes {
			if v.HostPath != nil {
				got = append(got, v.HostPath.Path)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has the paths %v of its node, not %v", name, got, want)
		}
	}
}

// Containers have only the capabilities justified in the manifest, cannot gain more, and cannot
// change their image. VPP's container has all by default: docs/operator/install.md gives the reasons.
func TestContainersAreConfined(t *testing.T) {
	confined, err := install.Render("vpp: {enabled: true, privileged: false}")
	if err != nil {
		t.Fatal(err)
	}
	capabilities := map[string][]corev1.Capability{
		"DaemonSet contiv-agent agent":    {"NET_ADMIN", "NET_RAW", "NET_BIND_SERVICE", "NET_BROADCAST", "SYS_ADMIN"},
		"DaemonSet contiv-vpp agent":      {"NET_ADMIN", "NET_RAW", "IPC_LOCK", "NET_BIND_SERVICE", "NET_BROADCAST", "SYS_ADMIN"},
		"StatefulSet contiv-etcd prepare": {"CHOWN", "DAC_READ_SEARCH"},
	}
	for name, o := range Parse(t, confined) {
		template, ok := Pod(o)
		if !ok {
			continue
		}
		if p := template.Spec.SecurityContext; p == nil || p.SeccompProfile == nil || p.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: no filter of system calls", name)
		}
		if slices.ContainsFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil && v.HostPath.Path == "/dev" }) {
			t.Errorf("%s: it sees the devices of the node", name)
		}
		for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
			what, s := name+" "+c.Name, c.SecurityContext
			if s == nil {
				t.Errorf("%s: no securityContext", what)
				continue
			}
			var wrong []string
			if s.Privileged != nil && *s.Privileged {
				wrong = append(wrong, "it is privileged")
			}
			if s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
				wrong = append(wrong, "it can change its image")
			}
			if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
				wrong = append(wrong, "it can get more privileges")
			}
			if s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(s.Capabilities.Add, capabilities[what]) {
				wrong = append(wrong, fmt.Sprintf("its capabilities are %+v", s.Capabilities))
			}
			if len(wrong) > 0 {
				t.Errorf("%s: %s", what, strings.Join(wrong, ", "))
			}
		}
	}
}

// A leaking container does not exhaust its node's memory. VPP's is sized to the node, by vpp.conf.
func TestContainersHaveALimitOfMemory(t *testing.T) {
	for name, o := range Objects(t) {
		template, _ := Pod(o)
		for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
			limit, requested := c.Resources.Limits.Memory(), c.Resources.Requests.Memory()
			if vpp := name == "DaemonSet contiv-vpp" && c.Name == "agent"; limit.IsZero() != vpp || requested.IsZero() || !vpp && requested.Cmp(*limit) > 0 {
				t.Errorf("%s %s: requests %v of memory, and gets at most %v", name, c.Name, requested, limit)
			}
		}
	}
}

// Containers make only the network part of /proc/sys writable.
func TestSettingsOfTheKernelStayReadOnly(t *testing.T) {
	mounts := regexp.MustCompile(`mount [^;]*`)
	found := map[string]bool{}
	for name, o := range Objects(t) {
		template, _ := Pod(o)
		for _, c := range template.Spec.Containers {
			for _, command := range mounts.FindAllString(strings.Join(append(slices.Clone(c.Command), c.Args...), " "), -1) {
				target := path.Clean(command[strings.LastIndex(command, " ")+1:])
				if found[name] = true; target != "/proc/sys/net" {
					t.Errorf("%s: %s", name, command)
				}
			}
		}
	}
	if names := slices.Collect(maps.Keys(found)); !slices.Equal(names, []string{"DaemonSet contiv-agent"}) {
		t.Errorf("%v have a script that mounts: is the test right?", names)
	}
}
