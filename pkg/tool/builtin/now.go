package builtin

import (
	"context"
	"regexp"
	"time"

	"github.com/agentloop/agentloop/pkg/message"
	"github.com/agentloop/agentloop/pkg/tool"
)

// zoneName is what a time zone can be called: nothing that leads out of the zone files.
var zoneName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,3}$`)

const maxZoneName = 64

// now tells the time, RFC 3339 to the second, and the day of the week, which models cannot tell from a date.
func (s *set) now(_ context.Context, call tool.Call) (tool.Result, error) {
	var args struct {
		TimeZone string `json:"timeZone"`
	}
	if complaint := arguments(call, &args); complaint != "" {
		return failed("%s", complaint), nil
	}
	zone := time.UTC
	if args.TimeZone != "" {
		// "Local" would be the worker's own zone.
		if len(args.TimeZone) > maxZoneName || !zoneName.MatchString(args.TimeZone) || args.TimeZone == "Local" {
			return failed("%.64q is no name of a time zone. Use an IANA name such as Europe/Berlin, or none for UTC.", args.TimeZone), nil
		}
		var err error
		if zone, err = time.LoadLocation(args.TimeZone); err != nil {
			return failed("There is no time zone %q. Use an IANA name such as Europe/Berlin, or none for UTC.", args.TimeZone), nil //nolint:nilerr // the model is told
		}
	}
	at := s.clock().In(zone)
	return tool.Result{Content: message.Text(at.Format(time.RFC3339) + " " + at.Weekday().String())}, nil
}
