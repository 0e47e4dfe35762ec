package world

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// managerAccount is the account of manager and workers.
const managerAccount = "agentloop-manager"

// systemNamespace is where agentloop's own accounts live.
const systemNamespace = "agentloop-system"

// roles of agentloop's accounts, by account.
var roles = map[string][]string{
	managerAccount:     {"agentloop-controllers", "agentloop-workers"},
	"agentloop-viewer": {"agentloop-viewer"},
}

// hasDefaultAccount says whether the service account controller is at work.
func (w *World) hasDefaultAccount(ctx context.Context) error {
	_, err := w.Client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
	return err
}

// Kubectl runs the real kubectl as the administrator.
func (w *World) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(w.Assets, "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig, "HOME="+w.Dir)
	return command
}

// applyRoles installs config/rbac and config/admission and binds agentloop's own accounts.
func (w *World) applyRoles(ctx context.Context) error {
	if err := w.Namespace(ctx, systemNamespace); err != nil {
		return err
	}
	for _, folder := range []string{"config/rbac", "config/admission"} {
		out, err := w.Kubectl(ctx, "apply", "-f", filepath.Join(w.Root, folder)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("apply %s: %w: %s", folder, err, out)
		}
	}
	elected := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: managerAccount, Namespace: systemNamespace},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: managerAccount, Namespace: systemNamespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "agentloop-controllers"},
	}
	if _, err := w.Client.RbacV1().RoleBindings(systemNamespace).Create(ctx, elected, metav1.CreateOptions{}); err != nil {
		return err
	}
	for account, bound := range roles {
		object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: systemNamespace}}
		if _, err := w.Client.CoreV1().ServiceAccounts(systemNamespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
		for _, role := range bound {
			binding := &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: account + "-" + role},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: systemNamespace}},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			}
			if _, err := w.Client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Namespace makes a namespace; one that exists is a success.
func (w *World) Namespace(ctx context.Context, name string) error {
	_, err := w.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Token returns a token of a service account.
func (w *World) Token(ctx context.Context, namespace, account string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3 * 3600)}}
	response, err := w.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of %s/%s: %w", namespace, account, err)
	}
	return response.Status.Token, nil
}

// ViewerToken makes an account that may read the trajectories of one namespace, and returns its token.
func (w *World) ViewerToken(ctx context.Context, namespace string) (string, error) {
	const name = "trajectory-reader"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := w.Client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	for _, role := range []string{"agentloop-trajectory-viewer", "agentloop-trajectory-exporter"} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		if _, err := w.Client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", err
		}
	}
	return w.Token(ctx, namespace, name)
}

// Approver lets a user of that name decide about tool calls in one namespace.
func (w *World) Approver(ctx context.Context, namespace, user string) error {
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "approver-" + user},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user, APIGroup: rbacv1.GroupName}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "agentloop-approver"},
	}
	_, err := w.Client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// account writes a kubeconfig of one of agentloop's own accounts and returns its path.
func (w *World) account(ctx context.Context, name string) (string, error) {
	token, err := w.Token(ctx, systemNamespace, name)
	if err != nil {
		return "", err
	}
	server := w.Config.Host
	if w.APIGate != nil && name == managerAccount {
		server = "https://" + w.APIGate.Address()
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["world"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: w.Config.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["world"] = &clientcmdapi.Context{Cluster: "world", AuthInfo: name, Namespace: systemNamespace}
	config.CurrentContext = "world"
	path := w.path(name + ".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}
