package viewer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop/agentloop/cmd/kubectl-agentloop/cluster"
)

// accessComponent marks the ServiceAccount that the chart installs so that people without a bearer token of their own can
// read trajectories; accessAccount is its name where accounts may not be listed.
const (
	accessComponent = "viewer-access"
	accessAccount   = "agentloop-viewer-access"
)

// lifetime is how long a token that is asked for is valid: the shortest that the API server gives is ten minutes.
const lifetime = time.Hour

type tokenFunc func(ctx context.Context) (string, error)

// tokens finds where tokens for the viewer come from. home is the viewer's namespace, empty for not known.
func tokens(ctx context.Context, c *cluster.Cluster, opts Options, home string) (tokenFunc, error) {
	switch {
	case opts.TokenFile != "":
		return fileToken(opts.TokenFile)
	case opts.Account != "":
		key, err := accountKey(opts.Account, home)
		if err != nil {
			return nil, err
		}
		return requested(ctx, c, key)
	case c.Config.Impersonate.UserName != "":
		return nil, errors.New("--as cannot be carried to the viewer, which knows people by their token: name one with --viewer-token-file, or an account with --viewer-account")
	}
	own := ownToken(c.Config)
	if token, err := own(ctx); err != nil || token != "" {
		return own, err
	}
	key, err := accessKey(ctx, c, home)
	if err != nil {
		return nil, err
	}
	return requested(ctx, c, key)
}

func fileToken(file string) (tokenFunc, error) {
	read := func(context.Context) (string, error) {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("--viewer-token-file: %w", err)
		}
		token := strings.TrimSpace(string(raw))
		if token == "" {
			return "", fmt.Errorf("--viewer-token-file %s is empty", file)
		}
		return token, nil
	}
	_, err := read(context.Background())
	return read, err
}

// ownToken is the bearer token of the kubeconfig's user, whether it stands there, in a file, or comes from a credential
// plugin: it is what client-go would send to the API server. It is empty for users without one.
func ownToken(config *rest.Config) tokenFunc {
	return func(ctx context.Context) (string, error) {
		seen := &catcher{}
		transport, err := rest.HTTPWrappersForConfig(config, seen)
		if err != nil {
			return "", fmt.Errorf("read the kubeconfig's credentials: %w", err)
		}
		// Nothing is sent: the request ends in the catcher.
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host, nil)
		if err != nil {
			return "", nil //nolint:nilerr // an address that only client-go understands: there is no token to be had this way
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return "", fmt.Errorf("get a token from the kubeconfig's credential plugin: %w", err)
		}
		_ = response.Body.Close() // it is empty
		scheme, token, _ := strings.Cut(seen.authorization, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", nil
		}
		return token, nil
	}
}

// catcher takes the credentials off a request instead of sending it.
type catcher struct{ authorization string }

// RoundTrip implements http.RoundTripper.
func (c *catcher) RoundTrip(request *http.Request) (*http.Response, error) {
	c.authorization = request.Header.Get("Authorization")
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: request, Header: http.Header{}}, nil
}

func accountKey(given, home string) (client.ObjectKey, error) {
	namespace, name, both := strings.Cut(given, "/")
	if !both {
		namespace, name = home, given
	}
	if namespace == "" || name == "" {
		return client.ObjectKey{}, fmt.Errorf("--viewer-account %s: use NAMESPACE/NAME", given)
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}

// accessKey finds the account that the chart installs for readers.
func accessKey(ctx context.Context, c *cluster.Cluster, home string) (client.ObjectKey, error) {
	list := &corev1.ServiceAccountList{}
	err := c.List(ctx, list, client.InNamespace(home), client.MatchingLabels{labelName: product, labelComponent: accessComponent})
	switch {
	case err == nil && len(list.Items) > 0:
		return client.ObjectKeyFromObject(&list.Items[0]), nil
	case home != "" && (err == nil || apierrors.IsForbidden(err)):
		return client.ObjectKey{Namespace: home, Name: accessAccount}, nil
	}
	return client.ObjectKey{}, errors.New("your kubeconfig has no bearer token, and the viewer knows people by theirs: name an account whose token you may ask for with --viewer-account NAMESPACE/NAME, or a token with --viewer-token-file (kubectl create token ACCOUNT makes one)")
}

// requested asks the API server for tokens of an account, a new one well before the last one ends.
func requested(ctx context.Context, c *cluster.Cluster, key client.ObjectKey) (tokenFunc, error) {
	source := &requester{cluster: c, key: key}
	_, err := source.token(ctx)
	return source.token, err
}

type requester struct {
	cluster *cluster.Cluster
	key     client.ObjectKey

	mu     sync.Mutex
	held   string
	fresh  time.Time
	expiry time.Time
}

func (r *requester) token(ctx context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.held != "" && now.Before(r.fresh) {
		return r.held, nil
	}
	seconds := int64(lifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.key.Namespace, Name: r.key.Name}}
	err := r.cluster.SubResource("token").Create(ctx, account, request)
	switch {
	case err != nil && r.held != "" && now.Before(r.expiry):
		return r.held, nil
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("you may not create serviceaccounts/token of %s, whose token would let you read: ask for that verb, or log in with a kubeconfig that has a bearer token, or name one with --viewer-token-file", r.key)
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("there is no ServiceAccount %s to read trajectories with: name one with --viewer-account NAMESPACE/NAME, or a token with --viewer-token-file", r.key)
	case err != nil:
		return "", fmt.Errorf("ask for a token of ServiceAccount %s: %w", r.key, err)
	}
	r.held, r.expiry = request.Status.Token, request.Status.ExpirationTimestamp.Time
	r.fresh = now.Add(r.expiry.Sub(now) * 3 / 4)
	return r.held, nil
}
