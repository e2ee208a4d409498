package kubeclient

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func TestPermissionsAreThoseThatAreUsed(t *testing.T) {
	data, err := os.ReadFile("../../../deploy/contiv-ksr-rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var permitted []string
	for _, document := range strings.Split(string(data), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if role.Kind != "ClusterRole" || role.Name != "contiv-ksr" {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					permitted = append(permitted, verb+" "+resource+"."+rule.APIGroups[0])
				}
			}
		}
	}

	s := newServer(cluster()...)
	_, reports := run(t, s, time.Hour)
	wantReport(t, reports, true, all...)
	s.awaitWatches(t)
	var used []string
	for _, a := range slices.Concat(s.Actions(), s.custom.Actions()) {
		used = append(used, a.GetVerb()+" "+a.GetResource().Resource+"."+a.GetResource().Group)
	}
	slices.Sort(permitted)
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(permitted, used) {
		t.Errorf("permitted: %q\nused: %q", permitted, used)
	}
}
