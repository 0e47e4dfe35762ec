package chart

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write golden files")

// sets are the value sets, by name.
func sets(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(paths) != 6 {
		t.Fatalf("%d value sets, %v", len(paths), err)
	}
	out := map[string]string{}
	for _, path := range paths {
		out[strings.TrimSuffix(filepath.Base(path), ".yaml")] = path
	}
	return out
}

func render(t *testing.T, args ...string) string {
	t.Helper()
	return must(t)(helm(t, append([]string{"template", "agentloop", chart, "--namespace", system}, args...)...))
}

var separator = regexp.MustCompile(`(?m)^---$`)

// objects reads a stream of YAML documents.
func objects(t *testing.T, text string) []unstructured.Unstructured {
	t.Helper()
	var out []unstructured.Unstructured
	for _, document := range separator.Split(text, -1) {
		var u unstructured.Unstructured
		if err := yaml.UnmarshalStrict([]byte(document), &u.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// TestGolden pins what the chart renders, but for the custom resource definitions, which TestCRDs compares.
func TestGolden(t *testing.T) {
	for name, values := range sets(t) {
		t.Run(name, func(t *testing.T) {
			must(t)(helm(t, "lint", chart, "--strict", "--quiet", "--values", values))
			got := render(t, "--values", values, "--set", "crds.install=false")
			path := filepath.Join("testdata/golden", name+".yaml")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("%s: -want +got (go test ./test/chart -update writes it)\n%s", path, diff)
			}
		})
	}
}

// TestAccepted asks the API server whether it would take each set, with unknown fields refused. Kinds that others bring are
// left out.
func TestAccepted(t *testing.T) {
	_, err := kubectl(t, "create", "namespace", system)
	if err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
		t.Fatal(err)
	}
	for _, name := range []string{"team-a", "team-b"} {
		if _, err := kubectl(t, "create", "namespace", name); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
			t.Fatal(err)
		}
	}
	for name, values := range sets(t) {
		t.Run(name, func(t *testing.T) {
			var known []string
			for _, o := range objects(t, render(t, "--values", values)) {
				if group := o.GroupVersionKind().Group; group == "monitoring.coreos.com" || group == "gateway.networking.k8s.io" {
					continue
				}
				raw, err := yaml.Marshal(o.Object)
				if err != nil {
					t.Fatal(err)
				}
				known = append(known, string(raw))
			}
			must(t)(call(t, []byte(strings.Join(known, "---\n")), "kubectl", "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"))
		})
	}
}

// TestCRDs wants the definitions of config/crd, with nothing changed but labels and whether they stay.
func TestCRDs(t *testing.T) {
	for flags, policy := range map[string]string{"crds.keep=true": "keep", "crds.keep=false": ""} {
		found := map[string]unstructured.Unstructured{}
		for _, o := range objects(t, render(t, "--values", "testdata/values/default.yaml", "--set", flags)) {
			if o.GetKind() == "CustomResourceDefinition" {
				found[o.GetName()] = o
			}
		}
		paths, err := filepath.Glob(root + "/config/crd/*.yaml")
		if err != nil || len(paths) != len(found) || len(paths) == 0 {
			t.Fatalf("%d definitions in the chart, %d in config/crd, %v", len(found), len(paths), err)
		}
		for _, path := range paths {
			want := objects(t, read(t, path))[0]
			got := found[want.GetName()]
			annotations := got.GetAnnotations()
			if annotations["helm.sh/resource-policy"] != policy {
				t.Errorf("%s with %s: resource policy %q, want %q", want.GetName(), flags, annotations["helm.sh/resource-policy"], policy)
			}
			delete(annotations, "helm.sh/resource-policy")
			got.SetAnnotations(annotations)
			got.SetLabels(nil)
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Errorf("%s: -config/crd +chart\n%s", want.GetName(), diff)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// rules of the roles of some documents, by kind, namespace and name.
func rules(t *testing.T, text string) map[string][]rbacv1.PolicyRule {
	t.Helper()
	out := map[string][]rbacv1.PolicyRule{}
	for _, o := range objects(t, text) {
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
			continue
		}
		var role rbacv1.Role
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		key := o.GetKind() + " " + o.GetName()
		if o.GetNamespace() != "" {
			key = o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		}
		out[key] = role.Rules
	}
	return out
}

// TestRoles wants the rules of config/rbac, whole with ClusterRoles, and divided with Roles.
func TestRoles(t *testing.T) {
	config := rules(t, read(t, root+"/config/rbac/role.yaml")+"\n---\n"+read(t, root+"/config/rbac/people.yaml"))
	config["Role agentloop-system/agentloop-leader"] = config["Role agentloop-system/agentloop-controllers"]
	delete(config, "Role agentloop-system/agentloop-controllers")
	config["Role agentloop-system/agentloop-viewer-access"] = []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{"agentloop-viewer-access"}, Verbs: []string{"create"}},
	}
	for _, set := range []string{"default", "all-in-one", "tryout"} {
		if diff := cmp.Diff(config, rules(t, render(t, "--values", "testdata/values/"+set+".yaml"))); diff != "" {
			t.Errorf("%s: -config/rbac +chart\n%s", set, diff)
		}
	}
	divided := map[string][]rbacv1.PolicyRule{}
	for key, list := range config {
		name, own := strings.CutPrefix(key, "ClusterRole agentloop-")
		if !own || !slices.Contains([]string{"controllers", "workers", "viewer"}, name) {
			divided[key] = list
			continue
		}
		var whole, part []rbacv1.PolicyRule
		for _, rule := range list {
			switch {
			case strings.HasSuffix(rule.APIGroups[0], ".k8s.io") && name == "viewer":
				whole = append(whole, rule)
			case rule.Resources[0] == "namespaces":
				rule.Verbs = []string{"get"}
				part = append(part, rule)
			default:
				part = append(part, rule)
			}
		}
		if len(whole) > 0 {
			divided[key] = whole
		}
		for _, namespace := range []string{"team-a", "team-b"} {
			divided["Role "+namespace+"/agentloop-"+name] = part
		}
	}
	if diff := cmp.Diff(divided, rules(t, render(t, "--values", "testdata/values/namespaces.yaml"))); diff != "" {
		t.Errorf("in namespaces: -config/rbac +chart\n%s", diff)
	}
}

// TestPolicies wants the admission policies of config/admission.
func TestPolicies(t *testing.T) {
	want := map[string]any{}
	paths, err := filepath.Glob(root + "/config/admission/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		for _, o := range objects(t, read(t, path)) {
			want[o.GetKind()+" "+o.GetName()] = o.Object["spec"]
		}
	}
	got := map[string]any{}
	for _, o := range objects(t, render(t, "--values", "testdata/values/default.yaml")) {
		if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			got[o.GetKind()+" "+o.GetName()] = o.Object["spec"]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-config/admission +chart\n%s", diff)
	}
}

// pods are the Pod templates of the Deployments of a set, by name.
func pods(t *testing.T, values string) map[string]corev1.PodTemplateSpec {
	t.Helper()
	out := map[string]corev1.PodTemplateSpec{}
	for _, o := range objects(t, render(t, "--values", values)) {
		if o.GetKind() != "Deployment" {
			continue
		}
		template, _, err := unstructured.NestedMap(o.Object, "spec", "template")
		if err != nil {
			t.Fatal(err)
		}
		var pod corev1.PodTemplateSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod); err != nil {
			t.Fatal(err)
		}
		out[o.GetName()] = pod
	}
	return out
}

// TestPods holds every Pod of every set to what a hardened cluster asks for, and its arguments to what the programs know.
func TestPods(t *testing.T) {
	for name, values := range sets(t) {
		for deployment, pod := range pods(t, values) {
			t.Run(name+"/"+deployment, func(t *testing.T) {
				s := pod.Spec.SecurityContext
				if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
					t.Errorf("the Pod's security context: %+v", s)
				}
				for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
					checkContainer(t, c)
				}
			})
		}
	}
}

func checkContainer(t *testing.T, c corev1.Container) {
	t.Helper()
	s := c.SecurityContext
	if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
		s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
		t.Errorf("%s: security context %+v", c.Name, s)
	}
	if c.LivenessProbe == nil || c.StartupProbe == nil && c.ReadinessProbe == nil {
		t.Errorf("%s lacks probes", c.Name)
	}
	limit := c.Resources.Limits.Memory().Value()
	at := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	if at < 0 {
		t.Fatalf("%s has no GOMEMLIMIT", c.Name)
	}
	var soft int64
	if err := yaml.Unmarshal([]byte(c.Env[at].Value), &soft); err != nil || soft < limit*85/100 || soft > limit*95/100 {
		t.Errorf("%s: GOMEMLIMIT %s with a limit of %d, %v", c.Name, c.Env[at].Value, limit, err)
	}
	if c.Name != "manager" && c.Name != "viewer" {
		return
	}
	// --help comes last: what stands before it was read and found valid.
	program := filepath.Join(root, "bin", c.Name)
	if out, err := exec.CommandContext(t.Context(), program, append(slices.Clone(c.Args), "--help")...).CombinedOutput(); err != nil {
		t.Errorf("%s %v: %v\n%s", c.Name, c.Args, err, out)
	}
}

// TestRefused wants values that cannot be meant to be refused in words that say what is wrong.
func TestRefused(t *testing.T) {
	for set, want := range map[string]string{
		"manager.mode=both":                     "at '/manager/mode': value must be one of 'split', 'all'",
		"nats.replicas=2":                       "at '/nats/replicas': value must be one of 1, 3, 5",
		"manager.drainSeconds=soon":             "at '/manager/drainSeconds': got string, want integer",
		"workers.resources.limits.memory=lots":  "at '/workers/resources/limits/memory': 'lots' does not match",
		"nats.url=nats:4222":                    "at '/nats/url': 'nats:4222' does not match",
		"viewr.enabled=true":                    "additional properties 'viewr' not allowed",
		"rbac.namespaces={Team}":                "at '/rbac/namespaces/0': 'Team' does not match",
		"nats.url=":                             "nats.url is not set: name your NATS server",
		"s3.endpoint=":                          "s3.endpoint is not set: name your S3 server",
		"viewer.ingress.enabled=true":           "viewer.ingress.host is not set",
		"viewer.httpRoute.enabled=true":         "viewer.httpRoute needs parentRefs and hostnames",
		"viewer.authProxy.enabled=true":         "viewer.authProxy needs existingSecret",
		"manager.digest=latest":                 "at '/manager/digest': 'latest' does not match",
		"image.pullPolicy=Sometimes":            "at '/image/pullPolicy': value must be one of",
		"s3.endpoint=https://s3.example.com/x/": "at '/s3/endpoint'",
	} {
		t.Run(set, func(t *testing.T) {
			_, err := helm(t, "template", "agentloop", chart, "--values", "testdata/values/default.yaml", "--set", set)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestNotes wants a try-out to be called what it is, and the way in to be said.
func TestNotes(t *testing.T) {
	for set, want := range map[string][]string{
		"tryout":     {"NOT FOR PRODUCTION", "create token agentloop-viewer-access", "all namespaces"},
		"namespaces": {"the namespaces team-a, team-b", "--clusterrole=agentloop-user"},
		"everything": {"The viewer is at https://agents.example.com"},
	} {
		out := must(t)(helm(t, "install", "agentloop", chart, "--namespace", system, "--dry-run=client", "--values", "testdata/values/"+set+".yaml"))
		_, notes, found := strings.Cut(out, "\nNOTES:\n")
		if !found {
			t.Fatalf("%s: no notes in\n%s", set, out)
		}
		for _, words := range want {
			if !strings.Contains(notes, words) {
				t.Errorf("%s: %q is missing in\n%s", set, words, notes)
			}
		}
		if (set == "tryout") != strings.Contains(notes, "NOT FOR PRODUCTION") {
			t.Errorf("%s: who reads the notes is misled about production\n%s", set, notes)
		}
	}
}
