package corpus

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

func pick[T any](random *rand.Rand, choices ...T) T { return choices[random.IntN(len(choices))] }

func randomBytes(random *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(random.Uint32())
	}
	return out
}

func randomHex(random *rand.Rand, digits int) string {
	return hex.EncodeToString(randomBytes(random, digits/2))
}

func uuid(random *rand.Rand) string {
	h := randomHex(random, 32)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// logs are lines of one of several shapes, as servers write them.
func logs(random *rand.Rand) string {
	at := time.Date(2030, 5, 17, 9, 0, 0, 0, time.UTC).Add(time.Duration(random.IntN(1e9)) * time.Millisecond)
	line := pick(random, klog, access, jsonLog, javaLog, testLog)
	var out strings.Builder
	for out.Len() < Size {
		at = at.Add(time.Duration(random.IntN(5000)) * time.Microsecond)
		out.WriteString(line(random, at))
	}
	return out.String()
}

var (
	things = []string{"payments-api", "checkout", "worker-7", "ingress-nginx", "billing", "session-store", "catalog", "mailer"}
	events = []string{"Reconciling object", "connection refused", "Successfully assigned pod", "lease renewed", "retrying after backoff",
		"cache miss", "request completed", "deadline exceeded while waiting for the lock", "updated status", "tls handshake error"}
	hosts = []string{"10.0.12.7", "192.168.4.201", "172.17.0.3", "10.244.1.18", "203.0.113.40"}
)

func klog(random *rand.Rand, at time.Time) string {
	return fmt.Sprintf("%s%s %7d %s.go:%d] %q namespace=%q name=\"%s-%s\" elapsed=\"%d.%03dms\"\n", pick(random, "I", "W", "E"), at.Format("0102 15:04:05.000000"),
		random.IntN(9999), pick(random, "controller", "reflector", "trace", "leaderelection"), random.IntN(900), pick(random, events...),
		pick(random, "default", "kube-system", "shop"), pick(random, things...), randomHex(random, 10), random.IntN(900), random.IntN(999))
}

func access(random *rand.Rand, at time.Time) string {
	return fmt.Sprintf("%s - - [%s] \"%s /%s/%d?page=%d HTTP/1.1\" %d %d \"-\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\" %.3f\n",
		pick(random, hosts...), at.Format("02/Jan/2006:15:04:05 -0700"), pick(random, "GET", "POST", "DELETE"), pick(random, "api/v1/orders", "users", "static/img"),
		random.IntN(1e6), random.IntN(40), pick(random, 200, 200, 201, 304, 404, 500), random.IntN(1e5), random.Float64()*3)
}

func jsonLog(random *rand.Rand, at time.Time) string {
	return fmt.Sprintf("{\"time\":%q,\"level\":%q,\"msg\":%q,\"service\":%q,\"trace_id\":%q,\"duration_ms\":%d,\"ok\":%v}\n", at.Format(time.RFC3339Nano),
		pick(random, "info", "warn", "error"), pick(random, events...), pick(random, things...), randomHex(random, 32), random.IntN(5000), random.IntN(2) == 0)
}

func javaLog(random *rand.Rand, at time.Time) string {
	return fmt.Sprintf("%s ERROR [http-nio-8080-exec-%d] c.e.%s.OrderService - %s\njava.lang.IllegalStateException: order %d\n\tat com.example.%s.OrderService.place(OrderService.java:%d)\n"+
		"\tat org.springframework.web.servlet.FrameworkServlet.service(FrameworkServlet.java:%d)\n", at.Format("2006-01-02 15:04:05,000"), random.IntN(20), pick(random, "shop", "billing"),
		pick(random, events...), random.IntN(1e6), pick(random, "shop", "billing"), random.IntN(400), random.IntN(999))
}

func testLog(random *rand.Rand, _ time.Time) string {
	return fmt.Sprintf("=== RUN   Test%s/%s\n    %s_test.go:%d: got %d, want %d\n--- FAIL: Test%s (%d.%02ds)\nok  \tgithub.com/example/%s\t%d.%03ds\n", pick(random, "Parse", "RoundTrip", "Merge"),
		pick(random, "empty", "unicode", "large_input"), pick(random, "parser", "store"), random.IntN(800), random.IntN(100), random.IntN(100), pick(random, "Parse", "Merge"),
		random.IntN(9), random.IntN(99), pick(random, things...), random.IntN(9), random.IntN(999))
}

// diffs are unified diffs of made-up changes to real source.
func diffs(random *rand.Rand, source []string) []string {
	var all []string
	for i, file := range source {
		lines := strings.Split(file, "\n")
		var out strings.Builder
		name := fmt.Sprintf("pkg/%s/file%d.go", pick(random, "store", "server", "parse"), i)
		fmt.Fprintf(&out, "diff --git a/%s b/%s\nindex %s..%s 100644\n--- a/%s\n+++ b/%s\n", name, name, randomHex(random, 10), randomHex(random, 10), name, name)
		for at := 0; at+12 < len(lines) && out.Len() < Size; at += 12 + random.IntN(9) {
			fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@ func (s *Store) Get(ctx context.Context) error {\n", at+1, 12, at+1+random.IntN(3), 12)
			for _, line := range lines[at : at+12] {
				switch random.IntN(6) {
				case 0:
					out.WriteString("-" + line + "\n")
				case 1:
					out.WriteString("+" + line + "\n")
				case 2:
					out.WriteString("-" + line + "\n+" + strings.ReplaceAll(line, "err", "failure") + "\n")
				default:
					out.WriteString(" " + line + "\n")
				}
			}
		}
		all = append(all, out.String())
	}
	return all
}

// base64s are base64 of random bytes and of text, in one line or in lines of 76.
func base64s(random *rand.Rand, source []string) []string {
	var all []string
	for i, file := range source {
		body := randomBytes(random, Size*3/4)
		if i%4 == 0 {
			body = []byte(file[:min(len(file), Size*3/4)])
		}
		text := base64.StdEncoding.EncodeToString(body)
		if i%3 == 0 {
			var lines strings.Builder
			for ; len(text) > 76; text = text[76:] {
				lines.WriteString(text[:76] + "\n")
			}
			text = lines.String() + text
		}
		all = append(all, text)
	}
	return all
}

// ids are lists of identifiers, digests and numbers.
func ids(random *rand.Rand) string {
	kind := random.IntN(4)
	var out strings.Builder
	for out.Len() < Size {
		switch kind {
		case 0:
			out.WriteString(uuid(random) + "\n")
		case 1:
			out.WriteString("sha256:" + randomHex(random, 64) + "  " + pick(random, things...) + ".tar.gz\n")
		case 2:
			fmt.Fprintf(&out, "%d,%d,%.4f,%d\n", random.IntN(1e9), random.IntN(1e4), random.NormFloat64()*100, random.IntN(100))
		default:
			out.WriteString(hex.Dump(randomBytes(random, 16)))
		}
	}
	return out.String()
}
