package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cniversion "github.com/containernetworking/cni/pkg/version"
	"github.com/contiv/contiv/internal/cni/delegate"
)

// PluginName is the type of the plugin and the name of its executable.
const PluginName = "contiv-cni"

// knownByAll is the newest version that all current runtimes understand. Newer runtimes choose from
// "cniVersions".
const knownByAll = "1.0.0"

const versionTimeout = 5 * time.Second

// standard returns the default configuration.
func (o *Options) standard() map[string]any {
	ours := map[string]any{"type": PluginName, "grpcServer": o.Server, "logFile": o.LogFile, "capabilities": map[string]any{"portMappings": true}}
	plugins := []any{ours}
	for _, name := range o.Chain {
		if _, err := os.Stat(filepath.Join(o.BinDir, name)); err != nil {
			o.Log.Warn("Plugin not installed, leaving it out of the chain", "plugin", name, "error", err)
			continue
		}
		plugin := map[string]any{"type": name}
		switch name {
		case "portmap": // only one plugin may open host ports
			delete(ours, "capabilities")
			plugin["capabilities"] = map[string]any{"portMappings": true}
			plugin["snat"] = true
		case "bandwidth":
			plugin["capabilities"] = map[string]any{"bandwidth": true}
		}
		plugins = append(plugins, plugin)
	}
	return map[string]any{"name": "k8s-pod-network", "plugins": plugins}
}

func (o *Options) conflist(ctx context.Context) ([]byte, error) {
	list := map[string]any{}
	if o.Conflist == "" {
		list = o.standard()
	} else {
		data, err := os.ReadFile(o.Conflist)
		if err != nil {
			return nil, fmt.Errorf("read the CNI configuration list: %w", err)
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("CNI configuration list %s is not a JSON object: %w", o.Conflist, err)
		}
	}
	plugins, err := pluginTypes(list)
	if err == nil {
		err = o.chooseVersion(ctx, list, plugins)
	}
	if err != nil {
		return nil, fmt.Errorf("CNI configuration list %s: %w", o.Conflist, err)
	}
	data, err := json.MarshalIndent(list, "", "  ")
	return append(data, '\n'), err
}

func pluginTypes(list map[string]any) ([]string, error) {
	if name, _ := list["name"].(string); name == "" {
		return nil, errors.New(`"name" is missing: set a name for the network, such as "k8s-pod-network"`)
	}
	plugins, ok := list["plugins"].([]any)
	if !ok || len(plugins) == 0 {
		return nil, errors.New(`"plugins" is missing or empty: use a list of objects, one of them with "type": "` + PluginName + `"`)
	}
	var types []string
	for i, p := range plugins {
		plugin, _ := p.(map[string]any)
		name, _ := plugin["type"].(string)
		if name == "" || strings.ContainsRune(name, '/') {
			return nil, fmt.Errorf(`plugin %d has no "type", the name of its program`, i+1)
		}
		types = append(types, name)
	}
	if !slices.Contains(types, PluginName) {
		return nil, fmt.Errorf(`none of "plugins" has "type": %q`, PluginName)
	}
	return types, nil
}

func (o *Options) chooseVersion(ctx context.Context, list map[string]any, plugins []string) error {
	common := slices.Clone(cniversion.All.SupportedVersions())
	for _, name := range plugins {
		versions, err := o.versions(ctx, name)
		if err != nil {
			return err
		}
		if wanted, given := list["cniVersion"].(string); given && !slices.Contains(versions, wanted) {
			return fmt.Errorf(`plugin %q supports "cniVersion" %[3]s, but not %[2]q: use one of these, or remove "cniVersion"`, name, wanted, strings.Join(versions, ", "))
		}
		common = slices.DeleteFunc(common, func(v string) bool { return !slices.Contains(versions, v) })
	}
	if _, given := list["cniVersion"]; given {
		return nil
	}
	base := ""
	for _, v := range common {
		if newer, err := cniversion.GreaterThan(v, knownByAll); err == nil && !newer {
			base = v
		}
	}
	if base == "" {
		return fmt.Errorf("no CNI version up to %s is supported by all of %s", knownByAll, strings.Join(plugins, ", "))
	}
	list["cniVersion"] = base
	if slices.Contains(common, cniversion.Current()) {
		list["cniVersions"] = []string{base, cniversion.Current()}
	} else {
		o.Log.Warn("Plugin in the chain too old for STATUS and GC", "needed", cniversion.Current(), "plugins", plugins, "common", common)
	}
	return nil
}

func (o *Options) versions(ctx context.Context, plugin string) ([]string, error) {
	if plugin == PluginName {
		return cniversion.All.SupportedVersions(), nil
	}
	path := filepath.Join(o.BinDir, plugin)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("plugin %q is not installed: %w", plugin, err)
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	versions, err := delegate.Versions(ctx, path)
	if err != nil {
		o.Log.Warn("Reading the CNI versions of a plugin failed; assuming version "+knownByAll, "plugin", path, "error", err)
		return slices.DeleteFunc(slices.Clone(cniversion.All.SupportedVersions()), func(v string) bool {
			newer, err := cniversion.GreaterThan(v, knownByAll)
			return err != nil || newer
		}), nil
	}
	return versions, nil
}
