package provider

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxWait bounds what a provider can ask for: more is an error of the provider, and would overflow arithmetic.
const maxWait = 30 * 24 * time.Hour

// RetryAfter returns how long response headers ask the caller to wait: retry-after-ms first, then Retry-After in seconds
// (fractions allowed) or as an HTTP date. A date is taken relative to the response's own Date header, so that a wrong
// clock on either side does no harm, and to now when there is none. It is 0 when the headers say nothing usable.
func RetryAfter(headers map[string][]string, now time.Time) time.Duration {
	if ms, ok := number(header(headers, "Retry-After-Ms")); ok {
		return boundedWait(ms * float64(time.Millisecond))
	}
	value := header(headers, "Retry-After")
	if seconds, ok := number(value); ok {
		return boundedWait(seconds * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(header(headers, "Date")); err == nil {
		now = date
	}
	return boundedWait(float64(at.Sub(now)))
}

func header(headers map[string][]string, name string) string {
	for key, values := range headers {
		if strings.EqualFold(key, name) && len(values) > 0 {
			return strings.TrimSpace(values[0])
		}
	}
	return ""
}

func number(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, false
	}
	return n, true
}

func boundedWait(ns float64) time.Duration {
	switch {
	case !(ns > 0): // also NaN
		return 0
	case ns > float64(maxWait):
		return maxWait
	}
	return time.Duration(ns)
}
