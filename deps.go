//go:build never

package agentloop

import (
	_ "github.com/anthropics/anthropic-sdk-go/v2"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/hashicorp/golang-lru/v2"
	_ "github.com/itchyny/gojq"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/klauspost/compress/gzhttp"
	_ "github.com/minio/minio-go/v7"
	_ "github.com/modelcontextprotocol/go-sdk/mcp"
	_ "github.com/nats-io/nats.go"
	_ "github.com/nats-io/nats.go/jetstream"
	_ "github.com/openai/openai-go/v3"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/time/rate"
	_ "golang.org/x/tools/go/packages"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	_ "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/client-go/kubernetes"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
	_ "sigs.k8s.io/yaml"
	_ "k8s.io/utils/ptr"
	_ "github.com/go-logr/logr"
)
