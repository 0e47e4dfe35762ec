package tracing

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// config is where spans are sent to, as the standard variables say it.
type config struct {
	endpoint string
	headers  map[string]string
	timeout  time.Duration
	gzip     bool
	tls      *tls.Config
}

const defaultTimeout = 10 * time.Second

// configOf reads the variables; nil when they name no receiver. The variables of traces win over those of all signals.
// Errors name the variable and hold no value: headers are credentials.
func configOf(getenv func(string) string) (*config, error) {
	read := func(name string) (string, string) {
		if value := strings.TrimSpace(getenv("OTEL_EXPORTER_OTLP_TRACES_" + name)); value != "" {
			return value, "OTEL_EXPORTER_OTLP_TRACES_" + name
		}
		return strings.TrimSpace(getenv("OTEL_EXPORTER_OTLP_" + name)), "OTEL_EXPORTER_OTLP_" + name
	}
	endpoint, from := read("ENDPOINT")
	chosen := strings.TrimSpace(getenv("OTEL_TRACES_EXPORTER"))
	switch {
	case strings.EqualFold(strings.TrimSpace(getenv("OTEL_SDK_DISABLED")), "true"), chosen == "none", endpoint == "":
		return nil, nil //nolint:nilnil // said above
	case chosen != "" && chosen != "otlp":
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER=%s: use otlp or none", chosen)
	}
	if protocol, name := read("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return nil, fmt.Errorf("%s=%s: use http/protobuf", name, protocol)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s is no URL that begins with http:// or https://", from)
	}
	if from == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		u = u.JoinPath("v1", "traces")
	}
	cfg := &config{endpoint: u.String(), timeout: defaultTimeout}
	return cfg, cfg.rest(read)
}

// rest reads what is not about the place.
func (cfg *config) rest(read func(string) (string, string)) error {
	if value, name := read("TIMEOUT"); value != "" {
		ms, err := strconv.Atoi(value)
		if err != nil || ms < 1 {
			return fmt.Errorf("%s=%s: use milliseconds", name, value)
		}
		cfg.timeout = time.Duration(ms) * time.Millisecond
	}
	switch value, name := read("COMPRESSION"); value {
	case "", "none":
	case "gzip":
		cfg.gzip = true
	default:
		return fmt.Errorf("%s=%s: use gzip or none", name, value)
	}
	var err error
	if cfg.headers, err = headersOf(read("HEADERS")); err != nil {
		return err
	}
	cfg.tls, err = tlsOf(read)
	return err
}

// headersOf reads key=value pairs with commas between, whose values are encoded as in URLs.
func headersOf(list, name string) (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !found || key == "" || err != nil || strings.ContainsFunc(decoded, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%s is no list of key=value pairs with commas between", name)
		}
		out[key] = decoded
	}
	return out, nil
}

// tlsOf reads the files with certificates that the variables name.
func tlsOf(read func(string) (string, string)) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if file, name := read("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s has no PEM certificate", name, file)
		}
	}
	certificate, name := read("CLIENT_CERTIFICATE")
	key, _ := read("CLIENT_KEY")
	if certificate == "" && key == "" {
		return cfg, nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%s and its key: %w", name, err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// samplerOf reads which traces are recorded: all of them, unless the variables say otherwise.
func samplerOf(getenv func(string) string) (sdktrace.Sampler, error) {
	name, argument := strings.ToLower(strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER"))), strings.TrimSpace(getenv("OTEL_TRACES_SAMPLER_ARG"))
	ratio := 1.0
	if strings.HasSuffix(name, "traceidratio") && argument != "" {
		var err error
		if ratio, err = strconv.ParseFloat(argument, 64); err != nil || ratio < 0 || ratio > 1 {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG=%s: use a number from 0 to 1", argument)
		}
	}
	switch name {
	case "", "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(ratio), nil
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio)), nil
	}
	return nil, fmt.Errorf("OTEL_TRACES_SAMPLER=%s: use always_on, always_off, traceidratio, or one of them behind parentbased_", name)
}
